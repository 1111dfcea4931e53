"""What a corpus is like, from one pass over it in bounded memory: size, lengths, types, duplicates, overlap.

Words are what white space separates, so that all of this is known before any subword is learnt.
"""

from __future__ import annotations

__all__ = ["Fingerprint", "Side", "take"]

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from s2s.recipe.counting import DistinctCounter, hashed
from s2s.task import Example

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s.task import Task

BLOCK = 10_000
"""Pairs that are looked at together"""
LONGEST = 2000
"""Words from which lengths are counted as one"""
QUANTILES = (0.5, 0.95, 0.99, 1.0)
HELD_OUT = 100_000
"""Pairs of a development or test set that are looked for in the training corpus"""


@dataclass(frozen=True)
class Side:
    """One side of the training pairs."""

    n_words: int
    n_characters: int
    n_types: int
    """Different words; beyond 65,536 an estimate"""
    lengths: tuple[int, int, int, int]
    """Words of a sentence: median, 95%, 99%, longest (at most 2,000)"""


@dataclass(frozen=True)
class Fingerprint:
    """The training pairs, and how many of the held-out ones are among them."""

    n_pairs: int
    n_rejected: int
    src: Side
    tgt: Side
    duplicates: float
    """Share of the pairs that repeat another"""
    overlap: dict[str, float] = field(default_factory=dict)
    """Held-out split -> share of its sources that are sources of training pairs; of the user's own files alone"""
    from_files: bool = True
    """Whether the pairs are the user's own; a built-in corpus is not"""

    def describe(self) -> str:
        """One line for the first screen."""
        src, tgt = self.src, self.tgt
        seen = "".join(f", {share:.1%} of {split} sources seen in training" for split, share in self.overlap.items())
        return (
            f"{self.n_pairs:,} pairs, {src.n_words:,} + {tgt.n_words:,} words, {src.n_types:,} + {tgt.n_types:,} "
            f"types, half of the targets longer than {tgt.lengths[0]} words, longest {tgt.lengths[-1]}, "
            f"{self.duplicates:.1%} duplicates{seen}"
        )

    def record(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Self:
        """What `record` gave."""
        sides = {side: Side(**{**record[side], "lengths": tuple(record[side]["lengths"])}) for side in ("src", "tgt")}
        return cls(**{**record, **sides})


def take(task: Task) -> Fingerprint:
    """The fingerprint of a task's training corpora, each pair counted once whatever its corpus's weight."""
    from_files = bool(task.sources().files)
    held_out = {split: _sources(task, split) for split in ("valid", "test")} if from_files else {}
    looked_for: set[int] = set().union(*held_out.values())
    seen: set[int] = set()
    src, tgt, pairs = _SideCounter(), _SideCounter(), DistinctCounter()
    n_pairs = n_rejected = 0
    for block in _blocks(task):
        examples = [pair for pair in block if isinstance(pair, Example)]
        n_pairs, n_rejected = n_pairs + len(examples), n_rejected + len(block) - len(examples)
        src.add([pair.src for pair in examples])
        tgt.add([pair.tgt for pair in examples])
        pairs.add([hashed(*pair) for pair in examples])
        if looked_for:
            seen.update(looked_for.intersection([hashed(pair.src) for pair in examples]))
    return Fingerprint(
        n_pairs=n_pairs,
        n_rejected=n_rejected,
        src=src.side(),
        tgt=tgt.side(),
        duplicates=round(max(1 - len(pairs) / n_pairs, 0.0), 4) if n_pairs else 0.0,
        overlap={split: round(len(keys & seen) / len(keys), 4) for split, keys in held_out.items() if keys},
        from_files=from_files,
    )


def _blocks(task: Task) -> Iterator[list[Any]]:
    for name, _ in task.corpora("train"):
        examples = iter(task.examples("train", name))
        while block := list(islice(examples, BLOCK)):
            yield block


def _sources(task: Task, split: str) -> set[int]:
    examples: Iterable[Any] = (e for name, _ in task.corpora(split) for e in task.examples(split, name))
    return {hashed(pair.src) for pair in islice(examples, HELD_OUT) if isinstance(pair, Example)}


class _SideCounter:
    """What is known of one side so far."""

    def __init__(self) -> None:
        self.n_characters = 0
        self.n_words = 0
        self.lengths: Counter[int] = Counter()
        self.types = DistinctCounter()

    def add(self, lines: Sequence[str]) -> None:
        words = [line.split() for line in lines]
        lengths = [len(of_line) for of_line in words]
        self.n_characters += sum(map(len, lines))
        self.n_words += sum(lengths)
        self.lengths.update(min(length, LONGEST) for length in lengths)
        self.types.add(map(hashed, set().union(*words)))

    def side(self) -> Side:
        median, most, nearly_all, longest = (self._quantile(share) for share in QUANTILES)
        return Side(self.n_words, self.n_characters, len(self.types), (median, most, nearly_all, longest))

    def _quantile(self, share: float) -> int:
        rank = max(math.ceil(share * self.lengths.total()), 1)
        for length in sorted(self.lengths):
            rank -= self.lengths[length]
            if rank <= 0:
                return length
        return 0
