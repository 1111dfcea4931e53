"""Examples to a corpus of ids: encoded in threads, filtered, counted, and written in their order.

Threads, not processes: sentencepiece lets go of Python's lock while it encodes (two threads and two processes
were equally fast on two cores), nothing must be pickled, and a task of the user's own file works as it is.
"""

from __future__ import annotations

__all__ = ["EMPTY", "CorpusReport", "Limits", "encode_corpus", "n_workers"]

import os
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from s2s.data.corpus import Sentences
from s2s.errors import DataError
from s2s.task import Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from s2s.data.corpus import CorpusWriter
    from s2s.task import Task

CHUNK = 8192
"""Pairs that a thread encodes at once"""
EMPTY = "empty after encoding"

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Limits:
    """What is too long to be kept; a development set is only freed of empty sides."""

    max_len: int | None = None
    """Symbols of either side, eos counted"""
    max_ratio: float | None = None

    def reasons(self, src: NDArray[np.int64], tgt: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
        """For every reason the pairs to drop, by their lengths [n] without eos: [n] each, none of them twice."""
        shorter, longer = np.minimum(src, tgt), np.maximum(src, tgt)
        found = {EMPTY: shorter == 0}
        if self.max_len is not None:
            found[f"longer than data.max_len={self.max_len}"] = longer + 1 > self.max_len
        if self.max_ratio is not None:
            found[f"lengths over data.max_ratio={self.max_ratio:g}"] = longer > self.max_ratio * shorter
        gone = np.zeros(len(src), np.bool_)
        for reason, dropped in found.items():
            found[reason] = dropped & ~gone
            gone |= dropped
        return found


@dataclass
class CorpusReport:
    """What became of one corpus."""

    split: str
    name: str
    n_read: int = 0
    n_kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """Pairs by the reason for which they were dropped"""
    n_src: int = 0
    """Source symbols kept, without eos"""
    n_tgt: int = 0
    n_unk: int = 0
    """Those of both sides that are unknown"""

    def line(self, weight: float = 1.0) -> str:
        """All of it on one line; a weight, which no manifest knows, is said where it is not 1."""
        name = f"{self.split} {self.name}" + (f" (weight {weight:g})" if weight != 1 else "")
        share = self.n_unk / max(self.n_src + self.n_tgt, 1)
        return (
            f"{name}: {self.n_read:,} pairs read, {self.n_kept:,} kept{self.why()}; "
            f"{self.n_src:,} source and {self.n_tgt:,} target symbols, {share:.2%} unknown"
        )

    def why(self) -> str:
        """How many pairs were dropped, and for which reasons, the commonest first; nothing where none were."""
        if not self.dropped:
            return ""
        reasons = sorted(self.dropped.items(), key=lambda item: (-item[1], item[0]))
        counts = ", ".join(f"{count:,} {reason}" for reason, count in reasons)
        return f", {sum(self.dropped.values()):,} dropped ({counts})"


class _Encoded(NamedTuple):
    src: Sentences
    tgt: Sentences
    n_read: int
    dropped: Counter[str]


def encode_corpus(
    task: Task, writer: CorpusWriter, report: CorpusReport, limits: Limits, workers: int
) -> Iterator[CorpusReport]:
    """Encode all pairs of the corpus that `report` names; the counts so far after every chunk."""
    chunks = _chunks(task.examples(report.split, report.name))
    for done in _in_order(lambda chunk: _encode(task, chunk, limits), chunks, workers):
        writer.append(done.src, done.tgt)
        report.n_read += done.n_read
        report.n_kept += len(done.src.lengths)
        report.n_src += len(done.src.ids)
        report.n_tgt += len(done.tgt.ids)
        report.n_unk += int(sum((side.ids == task.vocab.unk).sum() for side in (done.src, done.tgt)))
        report.dropped = dict(Counter(report.dropped) + done.dropped)
        yield report


def n_workers(asked: int) -> int:
    """Threads to encode with; 0 takes one per core that this process may use."""
    if asked > 0:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chunks(examples: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(examples)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _encode(task: Task, chunk: Sequence[Example | Rejected], limits: Limits) -> _Encoded:
    examples = [pair for pair in chunk if not isinstance(pair, Rejected)]
    dropped = Counter(pair.reason for pair in chunk if isinstance(pair, Rejected))
    encoded = task.encode(examples)
    if len(encoded) != len(examples):
        raise DataError(f"{type(task).__name__}.encode gave {len(encoded)} pairs for {len(examples)} examples")
    src = Sentences.of([pair.src for pair in encoded])
    tgt = Sentences.of([pair.tgt for pair in encoded])
    kept = np.ones(len(examples), np.bool_)
    for reason, gone in limits.reasons(src.lengths, tgt.lengths).items():
        if gone.any():
            dropped[reason] += int(gone.sum())
            kept &= ~gone
    if not kept.all():
        src, tgt = src.keep(kept), tgt.keep(kept)
    return _Encoded(src, tgt, len(chunk), dropped)


def _in_order(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """function(item) for every item, in their order, a few of them at work at once."""
    if workers == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
