"""Encodes raw examples into a corpus of ids: in threads, filtered, counted, and written in order.

Threads, not processes: sentencepiece releases the GIL while it encodes (two threads and two processes were equally
fast on two cores), nothing must be pickled, and a task from a local file works as it is.
"""

from __future__ import annotations

__all__ = ["encode_corpus"]

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
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

    from s2s.data.mapped_corpus import Ids, MappedCorpusWriter
    from s2s.data.pair_rules import PairRules
    from s2s.task import Task
    from s2s.vocab import Side

CHUNK = 8192
"""Pairs that a thread encodes in one call"""

T = TypeVar("T")
R = TypeVar("R")


class _Chunk(NamedTuple):
    n_before: int
    """Pairs of the corpus before these"""
    pairs: Sequence[Example | Rejected]


class _Encoded(NamedTuple):
    src: RaggedIds
    tgt: RaggedIds
    n_read: int
    drops: Drops
    sources: SourceCounts


def encode_corpus(
    task: Task, writer: MappedCorpusWriter, report: CorpusReport, rules: PairRules, workers: int
) -> Iterator[CorpusReport]:
    """Encode the corpus that `report` names, yielding the report after every chunk."""
    chunks = _chunks(task.examples(report.split, report.name))
    for encoded in _in_order(lambda chunk: _encode(task, chunk, rules), chunks, workers):
        writer.append(encoded.src, encoded.tgt)
        report.n_read += encoded.n_read
        report.n_kept += len(encoded.src.lengths)
        report.n_src += len(encoded.src.ids)
        report.n_tgt += len(encoded.tgt.ids)
        report.n_unk += int(sum((side.ids == task.vocab.unk).sum() for side in (encoded.src, encoded.tgt)))
        report.drops.add(encoded.drops)
        if report.sources:
            report.sources.add(encoded.sources)
        yield report
    assert report.n_read == report.n_kept + report.drops.total


def _chunks(examples: Iterable[Example | Rejected]) -> Iterator[_Chunk]:
    n_before = 0
    for pairs in examples.columns(CHUNK) if isinstance(examples, PairReader) else _lists(iter(examples)):
        yield _Chunk(n_before, pairs)
        n_before += len(pairs)


def _lists(examples: Iterator[T]) -> Iterator[list[T]]:
    while pairs := list(islice(examples, CHUNK)):
        yield pairs


def _encode(task: Task, chunk: _Chunk, rules: PairRules) -> _Encoded:
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
    drops = Drops.collect(chunk.pairs, decided, chunk.n_before)
    return _Encoded(src, tgt, len(chunk.pairs), drops, sources)


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
