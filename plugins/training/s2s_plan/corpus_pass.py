"""The fingerprint of a task's corpora, from one pass over them in bounded memory, before subwords are learnt."""

from __future__ import annotations

__all__ = ["take"]

import math
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

from s2s import Example
from s2s_plan.counting import DistinctCounter, hashed
from s2s_plan.fingerprint import Fingerprint, Side
from s2s_plan.words import count_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s import Task

BLOCK = 10_000
"""Pairs processed together"""
LONGEST = 2000
"""Length in words at which lengths are capped"""
QUANTILES = (0.5, 0.95, 0.99, 1.0)
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
    )


def _weighted_blocks(task: Task) -> Iterator[tuple[float, list[Any]]]:
    for name, weight in task.corpora("train"):
        examples = iter(task.examples("train", name))
        while block := list(islice(examples, BLOCK)):
            yield weight, block


def _sources(task: Task, split: str) -> set[int]:
    examples: Iterable[Any] = (e for name, _ in task.corpora(split) for e in task.examples(split, name))
    return {hashed(pair.src) for pair in islice(examples, HELD_OUT) if isinstance(pair, Example)}


class _SideCounter:
    """Running statistics of one side."""

    def __init__(self) -> None:
        self.n_characters = 0
        self.n_words = 0
        self.lengths: Counter[int] = Counter()
        self.types = DistinctCounter()

    def add(self, lines: Sequence[str]) -> None:
        lengths = list(map(count_words, lines))
        self.n_characters += sum(map(len, lines))
        self.n_words += sum(lengths)
        self.lengths.update(min(length, LONGEST) for length in lengths)
        self.types.add(map(hashed, set().union(*(line.split() for line in lines))))

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
