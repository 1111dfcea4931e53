"""Encodes raw examples into a corpus of ids: in threads, filtered, counted, and written in order.

Threads, not processes: sentencepiece releases the GIL while it encodes (two threads and two processes were equally
fast on two cores), nothing must be pickled, and a task from a local file works as it is.
"""

from __future__ import annotations

__all__ = ["EMPTY", "CorpusReport", "LengthLimits", "encode_corpus"]

from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from s2s.data.mapped_corpus import RaggedIds
from s2s.data.source_shape import SourceCounts
from s2s.errors import DataError
from s2s.task import Encoded, Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from s2s.data.mapped_corpus import Ids, MappedCorpusWriter
    from s2s.task import Task
    from s2s.vocab import Side

CHUNK = 8192
"""Pairs that a thread encodes in one call"""
EMPTY = "empty after encoding"

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class LengthLimits:
    """Which pairs are dropped; without limits only those with an empty side."""

    max_len: int | None = None
    """Tokens of either side, eos included"""
    max_ratio: float | None = None
    cut_context: int | None = None
    """Tokens of a source, eos included, that previous texts may fill; the earliest of them are left out"""

    def reasons(
        self, src: NDArray[np.int64], tgt: NDArray[np.int64], context: NDArray[np.int64] | int = 0
    ) -> dict[str, NDArray[np.bool_]]:
        """The pairs to drop by reason, each under its first reason: lengths [n] without eos -> bool [n] per reason.

        context: how much of `src` [n] are previous texts, which have no part in the target.
        """
        shorter, longer = np.minimum(src - context, tgt), np.maximum(src - context, tgt)
        reasons = {EMPTY: shorter == 0}
        if self.max_len is not None:
            reasons[f"longer than data.max_len={self.max_len}"] = np.maximum(src, tgt) + 1 > self.max_len
        if self.max_ratio is not None:
            reasons[f"lengths over data.max_ratio={self.max_ratio:g}"] = longer > self.max_ratio * shorter
        gone = np.zeros(len(src), np.bool_)
        for reason, dropped in reasons.items():
            reasons[reason] = dropped & ~gone
            gone |= dropped
        return reasons


@dataclass
class CorpusReport:
    """Counts of one corpus: pairs read, kept and dropped, and tokens."""

    split: str
    name: str
    n_read: int = 0
    n_kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """Pairs by reason"""
    n_src: int = 0
    """Source tokens kept, without eos"""
    n_tgt: int = 0
    n_unk: int = 0
    """Unknown tokens of both sides"""
    sources: SourceCounts | None = None
    """What the sources of a training corpus are like; None: not measured"""

    def summary(self, weight: float = 1.0) -> str:
        """The counts on one line, with the weight where it is not 1."""
        name = f"{self.split} {self.name}" + (f" (weight {weight:.3g})" if weight != 1 else "")
        share = self.n_unk / max(self.n_src + self.n_tgt, 1)
        return (
            f"{name}: {self.n_read:,} pairs read, {self.n_kept:,} kept{self.drop_summary()}; "
            f"{self.n_src:,} source and {self.n_tgt:,} target tokens, {share:.2%} unknown"
        )

    def drop_summary(self) -> str:
        """How many pairs were dropped by reason, the most common first; empty if none were."""
        if not self.dropped:
            return ""
        reasons = sorted(self.dropped.items(), key=lambda item: (-item[1], item[0]))
        counts = ", ".join(f"{count:,} {reason}" for reason, count in reasons)
        return f", {sum(self.dropped.values()):,} dropped ({counts})"


class _Encoded(NamedTuple):
    src: RaggedIds
    tgt: RaggedIds
    n_read: int
    dropped: Counter[str]
    sources: SourceCounts


def encode_corpus(
    task: Task, writer: MappedCorpusWriter, report: CorpusReport, limits: LengthLimits, workers: int
) -> Iterator[CorpusReport]:
    """Encode the corpus that `report` names, yielding the report after every chunk."""
    chunks = _chunks(task.examples(report.split, report.name))
    for encoded in _in_order(lambda chunk: _encode(task, chunk, limits), chunks, workers):
        writer.append(encoded.src, encoded.tgt)
        report.n_read += encoded.n_read
        report.n_kept += len(encoded.src.lengths)
        report.n_src += len(encoded.src.ids)
        report.n_tgt += len(encoded.tgt.ids)
        report.n_unk += int(sum((side.ids == task.vocab.unk).sum() for side in (encoded.src, encoded.tgt)))
        report.dropped = dict(Counter(report.dropped) + encoded.dropped)
        if report.sources:
            report.sources.add(encoded.sources)
        yield report


def _chunks(examples: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(examples)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _encode(task: Task, chunk: Sequence[Example | Rejected], limits: LengthLimits) -> _Encoded:
    examples = [pair for pair in chunk if not isinstance(pair, Rejected)]
    dropped = Counter(pair.reason for pair in chunk if isinstance(pair, Rejected))
    encoded = task.encode(examples)
    if len(encoded) != len(examples):
        raise DataError(f"{type(task).__name__}.encode gave {len(encoded)} pairs for {len(examples)} examples")
    for pair in encoded:
        if not isinstance(pair, Encoded):
            what = "expected s2s.Encoded(src, tgt) of each example"
            raise DataError(f"{type(task).__name__}.encode: {what}, got {pair!r}")
    if task.context and limits.cut_context is not None:
        encoded = [pair._replace(src=task.cut_context(pair.src, limits.cut_context - 1)) for pair in encoded]
    src, tgt = (_ids(task, side, [getattr(pair, side) for pair in encoded]) for side in ("src", "tgt"))
    kept = np.ones(len(examples), np.bool_)
    for reason, gone in limits.reasons(src.lengths, tgt.lengths, _context(task, encoded)).items():
        if gone.any():
            dropped[reason] += int(gone.sum())
            kept &= ~gone
    if not kept.all():
        src, tgt = src.filter(kept), tgt.filter(kept)
    texts = [example.src for example, is_kept in zip(examples, kept.tolist(), strict=True) if is_kept]
    sources = SourceCounts.measure(texts, int(src.lengths.max(initial=0)))
    return _Encoded(src, tgt, len(chunk), dropped, sources)


def _context(task: Task, encoded: Sequence[Encoded]) -> NDArray[np.int64] | int:
    """How many tokens of each source are previous texts: [n]"""
    if not task.context:
        return 0
    return np.array([len(pair.src) - len(task.cut_context(pair.src, 0)) for pair in encoded], np.int64)


def _ids(task: Task, side: Side, sentences: list[list[int]]) -> RaggedIds:
    try:
        ids = RaggedIds.from_lists(sentences)
    except TypeError as error:
        raise DataError(f"{type(task).__name__}.encode: expected a list of ids as {side}: {error}") from None
    _check_no_special(task, side, ids.ids)
    return ids


def _check_no_special(task: Task, side: Side, ids: Ids) -> None:
    """A sentence that ends in eos already would be trained to end twice, and one with pad to go on behind it."""
    for name, special in task.vocab.added(side).items():
        if (ids == special).any():
            raise DataError(
                f"{type(task).__name__}.encode gave {name} ({special}) in a {side}: ids are without pad, bos and eos, "
                "which batches add by themselves"
            )


def _in_order(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """function(item) of every item, in order, computed by a thread pool."""
    if workers == 1:
        yield from map(function, items)
        return
    pending: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) > 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
