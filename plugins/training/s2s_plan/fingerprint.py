"""Statistics of a corpus: size, lengths, types, duplicates, overlap. `s2s_plan.words` counts the words."""

from __future__ import annotations

__all__ = ["Fingerprint", "Side"]

from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class Side:
    """One side of the training pairs."""

    n_words: int
    n_characters: int
    n_types: int
    """Distinct strings between spaces; an estimate beyond 65,536"""
    lengths: tuple[int, int, int, int]
    """Words of a sentence: median, 95%, 99%, longest (at most 2,000)"""


@dataclass(frozen=True)
class Fingerprint:
    """Statistics of the training pairs, and the share of held-out sources among them."""

    n_pairs: int
    n_rejected: int
    src: Side
    tgt: Side
    duplicates: float
    """Share of the pairs that repeat another"""
    overlap: dict[str, float] = field(default_factory=dict)
    """Held-out split -> share of its sources that are sources of training pairs; only for the user's own files"""
    from_files: bool = True
    """Whether the pairs are the user's own; a built-in corpus is not"""
    weighted_pairs: float | None = None
    """Pairs of an epoch, each as often as the weight of its corpus says; None: n_pairs"""
    weighted_words: float | None = None
    """Target words of an epoch; None: those of all pairs"""

    @property
    def epoch_pairs(self) -> float:
        """Pairs of an epoch."""
        return self.n_pairs if self.weighted_pairs is None else self.weighted_pairs

    @property
    def epoch_words(self) -> float:
        """Target words of an epoch."""
        return self.tgt.n_words if self.weighted_words is None else self.weighted_words

    def describe(self) -> str:
        """One line for the first screen."""
        src, tgt = self.src, self.tgt
        seen = "".join(f", {share:.1%} of {split} sources seen in training" for split, share in self.overlap.items())
        return (
            f"{self.n_pairs:,} pairs, {src.n_words:,} + {tgt.n_words:,} words, {src.n_types:,} + {tgt.n_types:,} "
            f"types, targets of {tgt.lengths[0]} words (median) to {tgt.lengths[-1]} (longest), "
            f"{self.duplicates:.1%} duplicates{seen}"
        )

    def record(self) -> dict[str, Any]:
        """The fingerprint as a JSON-serialisable dictionary."""
        return asdict(self)

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Self:
        """The inverse of `record`."""
        sides = {side: Side(**{**record[side], "lengths": tuple(record[side]["lengths"])}) for side in ("src", "tgt")}
        return cls(**{**record, **sides})
