"""Encodes raw examples into a corpus of ids: in threads, filtered, counted, and written in order.

Threads, not processes: sentencepiece releases the GIL while it encodes (two threads and two processes were equally
fast on two cores), nothing must be pickled, and a task from a local file works as it is.
"""

from __future__ import annotations

__all__ = ["Chunks", "EncodedChunk", "encode_corpus", "encoded_chunks"]

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count, islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from s2s.data.columns import EncodedColumns, PairReader, column, usable
from s2s.data.ledger import CorpusReport, Drops
from s2s.data.mapped_corpus import RaggedIds
from s2s.data.source_shape import SourceCounts
from s2s.errors import DataError
from s2s.task import Encoded, Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from s2s.data.columns import Wanted
    from s2s.data.mapped_corpus import Ids, MappedCorpusWriter
    from s2s.data.pair_rules import PairRules
    from s2s.task import Task
    from s2s.vocab import Side

CHUNK = 8192
"""Pairs that a thread encodes in one call"""

T = TypeVar("T")
R = TypeVar("R")


class _Chunk(NamedTuple):
    number: int
    """From 0: all before it have CHUNK pairs"""
    pairs: Sequence[Example | Rejected]


class EncodedChunk(NamedTuple):
    """What is kept of consecutive pairs, and counted."""

    number: int
    """From 0, in the corpus"""
    src: RaggedIds
    tgt: RaggedIds
    n_read: int
    n_unk: int
    drops: Drops
    sources: SourceCounts

    def write(self, writer: MappedCorpusWriter, report: CorpusReport) -> None:
        """Append the ids, and add the counts."""
        writer.append(self.src, self.tgt)
        report.n_read += self.n_read
        report.n_kept += len(self.src.lengths)
        report.n_src += len(self.src.ids)
        report.n_tgt += len(self.tgt.ids)
        report.n_unk += self.n_unk
        report.drops.add(self.drops)
        if report.sources:
            report.sources.add(self.sources)


def encode_corpus(
    task: Task, writer: MappedCorpusWriter, report: CorpusReport, rules: PairRules, workers: int
) -> Iterator[CorpusReport]:
    """Encode the corpus that `report` names, yielding the report after every chunk."""
    chunks = Chunks(task.examples(report.split, report.name))
    for encoded in encoded_chunks(task, chunks, rules, workers):
        encoded.write(writer, report)
        yield report
    assert report.n_read == report.n_kept + report.drops.total


def encoded_chunks(task: Task, chunks: Chunks, rules: PairRules, workers: int) -> Iterator[EncodedChunk]:
    """The chunks in their order."""
    return _in_order(lambda chunk: _encode(task, chunk, rules), chunks, workers)


class Chunks:
    """The chunks of a corpus that are `wanted` by their numbers; it is read to its end, once."""

    n = 0
    """Chunks so far, with those that are not wanted"""

    def __init__(self, examples: Iterable[Example | Rejected], wanted: Wanted = lambda _: True) -> None:
        self._examples, self._wanted = examples, wanted

    def __iter__(self) -> Iterator[_Chunk]:
        examples, wanted = self._examples, self._wanted
        if isinstance(examples, PairReader):
            columns: Iterator[Sequence[Example | Rejected] | None] = examples.columns(CHUNK, wanted)
        else:
            columns = _lists(iter(examples), wanted)
        for number, pairs in enumerate(columns):
            self.n = number + 1
            if pairs is not None:
                yield _Chunk(number, pairs)


def _lists(examples: Iterator[T], wanted: Wanted) -> Iterator[list[T] | None]:
    for number in count():
        if not (pairs := list(islice(examples, CHUNK))):
            return
        yield pairs if wanted(number) else None


def _encode(task: Task, chunk: _Chunk, rules: PairRules) -> EncodedChunk:
    reasons = rules.judge_texts(chunk.pairs)
    left = [index for index, reason in enumerate(reasons) if not reason]
    examples = usable(chunk.pairs, left)
    encoded = _encode_checked(task, examples)
    most = rules.limits.cut_context
    if task.context and most is not None:
        encoded = [pair._replace(src=task.cut_context(pair.src, most - 1)) for pair in encoded]
    src, tgt = (_ids(task, side, column(encoded, side)) for side in ("src", "tgt"))
    decided = rules.judge_lengths(reasons, src.lengths, tgt.lengths, _context(task, encoded))
    texts = column(examples, "src")
    kept = np.array([not decided[index] for index in left], np.bool_)
    if not kept.all():
        src, tgt = src.filter(kept), tgt.filter(kept)
        texts = [text for text, is_kept in zip(texts, kept.tolist(), strict=True) if is_kept]
    sources = SourceCounts.measure(texts, int(src.lengths.max(initial=0)))
    drops = Drops.collect(chunk.pairs, decided, chunk.number * CHUNK)
    n_unk = int(sum((side.ids == task.vocab.unk).sum() for side in (src, tgt)))
    return EncodedChunk(chunk.number, src, tgt, len(chunk.pairs), n_unk, drops, sources)


def _encode_checked(task: Task, examples: Sequence[Example]) -> Sequence[Encoded]:
    """What the task's `encode` gives; raises DataError for what is no pair of ids for each example."""
    encoded = task.encode(examples)
    if len(encoded) != len(examples):
        raise DataError(f"{type(task).__name__}.encode gave {len(encoded)} pairs for {len(examples)} examples")
    if not isinstance(encoded, EncodedColumns):
        for pair in encoded:
            if not isinstance(pair, Encoded):
                what = "expected s2s.Encoded(src, tgt) of each example"
                raise DataError(f"{type(task).__name__}.encode: {what}, got {pair!r}")
    return encoded


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
