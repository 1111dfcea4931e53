"""Statistics of a corpus: size, lengths, types, duplicates, overlap; from one pass over it in bounded memory."""

from __future__ import annotations

__all__ = ["Fingerprint", "Side", "take"]

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Self
from unicodedata import normalize

from s2s import Example
from s2s_plan.counting import DistinctCounter, count_words, hashed, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s import Task


@dataclass(frozen=True)
class Side:
    """One side of the training pairs."""

    n_words: int
    n_characters: int
    n_types: int
    """Distinct strings between spaces; an estimate beyond 65,536"""
    lengths: tuple[int, int, int, int]
    """Words of a sentence: median, 95%, 99%, longest (at most 2,000)"""
    n_symbols: int = 0
    """Distinct characters besides white space, after NFKC"""
    unseen: float = 1.0
    """Estimated share of words that do not occur in training: of those that occur once (Good, 1953); 1 for more than
    MOST_COUNTED types, which are not counted"""


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
    n_types: int = 0
    """Distinct words of both sides together"""
    n_symbols: int = 0
    """Distinct characters of both sides together"""

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


BLOCK = 10_000
"""Pairs processed together"""
LONGEST = 2000
"""Length in words at which lengths are capped"""
QUANTILES = (0.5, 0.95, 0.99, 1.0)
MOST_COUNTED = 2000
"""Types up to which each is counted"""
HELD_OUT = 100_000
"""Pairs of a development or test set that are searched for in the training corpus"""


def take(task: Task) -> Fingerprint:
    """The fingerprint of a task's training corpora: each pair counts once, and in an epoch by its corpus's weight."""
    from_files = bool(task.dependencies().files)
    held_out = {split: _sources(task, split) for split in ("valid", "test")} if from_files else {}
    looked_for: set[int] = set().union(*held_out.values())
    seen: set[int] = set()
    src, tgt, pairs = _SideCounter(), _SideCounter(), DistinctCounter()
    n_pairs = n_rejected = 0
    weighted_pairs = weighted_words = 0.0
    for weight, block in _weighted_blocks(task):
        examples = [pair for pair in block if isinstance(pair, Example)]
        n_pairs, n_rejected = n_pairs + len(examples), n_rejected + len(block) - len(examples)
        src.add([pair.src for pair in examples])
        before = tgt.n_words
        tgt.add([pair.tgt for pair in examples])
        weighted_pairs += weight * len(examples)
        weighted_words += weight * (tgt.n_words - before)
        pairs.add([hashed(pair.src, pair.tgt) for pair in examples])
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
        weighted_pairs=weighted_pairs,
        weighted_words=weighted_words,
        n_types=len(union(src.types, tgt.types)),
        n_symbols=len(src.symbols | tgt.symbols),
    )


def _weighted_blocks(task: Task) -> Iterator[tuple[float, list[Any]]]:
    for name, weight in task.corpora("train"):
        examples = iter(task.examples("train", name))
        while block := list(islice(examples, BLOCK)):
            yield weight, block


def _sources(task: Task, split: str) -> set[int]:
    examples: Iterable[Any] = (e for name, _ in task.corpora(split) for e in task.examples(split, name))
    return {hashed(pair.src) for pair in islice(examples, HELD_OUT) if isinstance(pair, Example)}


def _symbols(line: str) -> set[str]:
    """The characters of a line besides white space, in the form in which sentencepiece reads them."""
    return set("".join((line if line.isascii() else normalize("NFKC", line)).split()))


class _SideCounter:
    """Running statistics of one side."""

    def __init__(self) -> None:
        self.n_characters = 0
        self.n_words = 0
        self.lengths: Counter[int] = Counter()
        self.types = DistinctCounter()
        self.symbols: set[str] = set()
        self.counts: Counter[str] | None = Counter()
        """How often each word occurs; None: there are more than MOST_COUNTED"""

    def add(self, lines: Sequence[str]) -> None:
        lengths = list(map(count_words, lines))
        self.n_characters += sum(map(len, lines))
        self.n_words += sum(lengths)
        self.lengths.update(min(length, LONGEST) for length in lengths)
        words = [line.split() for line in lines]
        self.types.add(map(hashed, set().union(*words)))
        self.symbols.update(*map(_symbols, lines))
        if self.counts is not None:
            self.counts.update(chain.from_iterable(words))
            self.counts = self.counts if len(self.counts) <= MOST_COUNTED else None

    def side(self) -> Side:
        median, most, nearly_all, longest = (self._quantile(share) for share in QUANTILES)
        lengths, n_symbols = (median, most, nearly_all, longest), len(self.symbols)
        return Side(self.n_words, self.n_characters, len(self.types), lengths, n_symbols, self._unseen())

    def _unseen(self) -> float:
        if not self.counts:
            return 1.0
        return round(sum(n == 1 for n in self.counts.values()) / self.counts.total(), 4)

    def _quantile(self, share: float) -> int:
        rank = max(math.ceil(share * self.lengths.total()), 1)
        for length in sorted(self.lengths):
            rank -= self.lengths[length]
            if rank <= 0:
                return length
        return 0
