"""Segments as the sentences of a search, and the check of what it finds. No torch at import."""

from __future__ import annotations

__all__ = ["one_result_each", "sentences_of"]

from typing import TYPE_CHECKING

from s2s.decoding.sentences import SourceSentence
from s2s.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s.decoding.sentences import SearchResult
    from s2s.generation.segments import Segment
    from s2s.vocab import Vocab


def sentences_of(segments: Sequence[Segment], vocab: Vocab) -> list[SourceSentence]:
    """The segments that have tokens, under their indices, in the order in which they are searched."""
    order = sorted((i for i, one in enumerate(segments) if one.ids), key=lambda i: _precedence(segments[i]))
    return [_sentence(i, segments[i], vocab) for i in order]


def one_result_each(
    batches: Iterable[Iterable[SearchResult]], sentences: Iterable[SourceSentence], search: str
) -> Iterator[Iterable[SearchResult]]:
    """The results of a search; raises PluginError unless there is one for each sentence.

    search: its name in errors.
    """
    what, missing = f"{search}, or what processes its results", {sentence.index for sentence in sentences}
    for results in batches:
        some = list(results)
        for result in some:
            if result.index not in missing:
                raise PluginError(f"{what}, gave two results for a sentence, or one for none: index {result.index}")
            missing.remove(result.index)
        yield some
    if missing:
        raise PluginError(f"{what}, gave no result for {len(missing):,} sentences: index {min(missing)}, …")


def _precedence(segment: Segment) -> tuple[bool, int]:
    """The longest first, and those without a constraint of their own before all others, which have slower steps."""
    return segment.constraint is not None, -len(segment.ids)


def _sentence(index: int, segment: Segment, vocab: Vocab) -> SourceSentence:
    ids, start = vocab.ended(segment.ids), segment.starting_tokens
    return SourceSentence(index, ids, segment.constraint, starting_tokens=start, align=segment.align)
