"""Turns inputs into segments of token ids: the sentences of running text, the parts of what is too long."""

from __future__ import annotations

__all__ = ["Reader", "Segment"]

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from s2s.data.invisible import visible
from s2s.decoding import SentenceConstraint
from s2s.errors import DataError, PluginError
from s2s.generation.documents import with_previous_pieces
from s2s.generation.inputs import InputFields, sentence_constraint
from s2s.generation.piece_inputs import piece_inputs
from s2s.generation.text_layout import Piece
from s2s.task import Example

if TYPE_CHECKING:
    from s2s.config import GenerateConfig
    from s2s.generation.candidates import Counts, Input
    from s2s.generation.inputs import RequestConstraints
    from s2s.generation.text_layout import TextLayout, Unit
    from s2s.task import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Segment:
    """An input, or a part of one that is decoded by itself."""

    src: str
    ids: list[int]
    """Without eos; empty: there is nothing to search"""
    constraint: SentenceConstraint | None = None
    start: Sequence[int] = ()
    """See `SourceSentence.start`"""
    before: str = ""
    """Text before it, back to the previous segment, that is copied to the output"""
    after: str = ""
    """Text behind the last segment of an input"""


class _Part(NamedTuple):
    """A piece of a text, and the input that it is."""

    piece: Piece
    source: Input
    example: Example
    """What the task encodes"""


def _part(piece: Piece, source: Input) -> _Part:
    return _Part(piece, source, Example(piece.text, fields=source.fields))


class Reader:
    """Makes segments of at most `longest` tokens, eos included."""

    def __init__(
        self,
        task: Task,
        config: GenerateConfig,
        longest: int,
        counts: Counts,
        constraints: Sequence[RequestConstraints],
        layout: TextLayout | None = None,
        longest_trained: int | None = None,
    ) -> None:
        """layout: how running text is taken apart; None: an input is one segment.

        longest_trained: tokens of the longest source of the training text, without eos; None: not known.
        """
        self.task, self.config, self.longest, self.counts = task, config, longest, counts
        self.constraints, self.layout, self.longest_trained = constraints, layout, longest_trained
        self.fields = InputFields(task, [one.fields for one in constraints], config.input_fields)

    def __call__(
        self, inputs: Sequence[Input], unit: Unit | None = None
    ) -> tuple[list[list[Segment]], DataError | None]:
        """The segments of each input; at an erroneous input, the error, and the segments of the inputs before it.

        unit: what the model reads at once; None: what the options say.
        """
        parts, error = self._parts(inputs, unit)
        encoded = iter(self._encoded([part.example for part in chain.from_iterable(parts)]))
        segments: list[list[Segment]] = []
        for some in parts:
            try:
                segments.append(self._counted([one for part in some for one in self._segments(part, next(encoded))]))
            except DataError as erroneous:
                return segments, erroneous
        return segments, error

    def _parts(self, inputs: Sequence[Input], unit: Unit | None) -> tuple[list[list[_Part]], DataError | None]:
        """The parts of each input, up to the first that is erroneous, and its error."""
        parts: list[list[_Part]] = []
        for one in inputs:
            try:
                complete = replace(one, fields=self.fields(one))
                if self.layout is None:
                    parts.append([_part(Piece("", one.src), complete)])
                    continue
                language = self.task.source_language(complete.fields)
                pieces = self.layout.pieces(one.src, language, unit)
                sources = self._in_context(piece_inputs(complete, pieces, self.layout), unit)
                parts.append(list(map(_part, pieces, sources)))
            except DataError as error:
                return parts, error
        return parts, None

    def _in_context(self, pieces: list[Input], unit: Unit | None) -> list[Input]:
        """The pieces of one input, each with those before it as context, if the task reads any."""
        if not self.task.context or self.layout is None:
            return pieces
        return with_previous_pieces(pieces, self.task, self.layout, unit)

    def _encoded(self, inputs: Sequence[Example]) -> list[list[int]]:
        """The ids of each input, behind as much of its context as there is room for; a blank line is read as an empty
        one. Raises PluginError for ids of no such token."""
        name = type(self.task).__name__
        encoded = self.task.encode_inputs([replace(one, src=self._read(one.src)) for one in inputs])
        if len(encoded) != len(inputs):
            raise PluginError(f"{name}.encode_inputs gave {len(encoded)} lists of ids for {len(inputs)} inputs")
        for ids in filter(None, encoded):
            if not 0 <= min(ids) <= max(ids) < self.task.vocab.src:
                raise PluginError(
                    f"{name}.encode_inputs: expected ids below {self.task.vocab.src}, vocab.src, got {ids}"
                )
        if self.task.context:
            return [self.task.cut_context(ids, self.longest - 1) for ids in encoded]
        return encoded

    def _read(self, text: str) -> str:
        """What a task reads of a text: of running text, as the tokenisers of older runs do not, what is visible."""
        text = visible(text) if self.layout else text
        return text if text.strip() else ""

    def _start(self, source: Example) -> Sequence[int]:
        """The starting tokens of an input whose task gives it some, else none."""
        codes = self.task.starting_tokens(source)
        return (*self.task.vocab.start, *codes) if codes else ()

    def _segments(self, part: _Part, ids: list[int]) -> list[Segment]:
        """One segment, or one for each sentence of a part that is too long and has no constraint of its own."""
        constraint = sentence_constraint(self.config, self.task, part.source, self.constraints)
        if constraint is not None and not ids:
            raise DataError("an input without tokens has an empty output; leave out its prefix and phrases")
        start = self._start(part.example)
        whole = Segment(part.piece.text, ids, constraint, start, part.piece.before, part.piece.after)
        if len(ids) < self.longest:
            return [whole]
        if self.config.too_long == "error":
            raise DataError(f"{self._too_long(whole.src, len(ids))}; shorten it, or give too_long=split")
        if self.config.too_long == "truncate" or constraint is not None or self.layout is None:
            return [whole]
        return self._sentences(part, whole, self.layout)

    def _sentences(self, part: _Part, whole: Segment, layout: TextLayout) -> list[Segment]:
        """The sentences of a part, which together replace the segment of the `whole` part."""
        pieces = layout.pieces(whole.src, self.task.source_language(part.source.fields), "sentence")
        sources = self._in_context([replace(part.source, src=piece.text) for piece in pieces], "sentence")
        encoded = self._encoded([_part(*pair).example for pair in zip(pieces, sources, strict=True)])
        some = [
            Segment(piece.text, ids, start=whole.start, before=piece.before)
            for piece, ids in zip(pieces, encoded, strict=True)
        ]
        some[0] = replace(some[0], before=whole.before + pieces[0].before)
        some[-1] = replace(some[-1], after=pieces[-1].after + whole.after)
        return some

    def _counted(self, segments: list[Segment]) -> list[Segment]:
        """The segments of one input, each truncated to the maximum length; counts what is special about them."""
        self.counts.split += len(segments) > 1
        if self.longest_trained is not None:
            self._count_longer(segments, self.longest_trained)
        return self._truncated(segments)

    def _count_longer(self, segments: Sequence[Segment], longest: int) -> None:
        longer = [segment for segment in segments if len(segment.ids) > longest]
        if longer and not self.counts.longer:
            worst = max(longer, key=lambda segment: len(segment.ids))
            logger.warning(
                "an input of %s tokens is longer than any source of the training text (%s): its output may lack much "
                "of it: %r%s",
                f"{len(worst.ids):,}",
                f"{longest:,}",
                worst.src[:60],
                "…" if len(worst.src) > 60 else "",
            )
        self.counts.longer += bool(longer)

    def _truncated(self, segments: list[Segment]) -> list[Segment]:
        """The segments of one input, each truncated to the maximum length."""
        room = self.longest - 1  # for eos
        too_long = [segment for segment in segments if len(segment.ids) > room]
        if too_long and not self.counts.truncated:
            worst = max(too_long, key=lambda segment: len(segment.ids))
            logger.warning("%s; truncated, as all others will be", self._too_long(worst.src, len(worst.ids)))
        self.counts.truncated += bool(too_long)
        return [replace(one, ids=one.ids[:room]) for one in segments] if too_long else segments

    def _too_long(self, line: str, n: int) -> str:
        return (
            f"an input of {n + 1:,} tokens is longer than the {self.longest:,} allowed (max_source, or "
            f"the model's own limit): {line[:60]!r}{'…' if len(line) > 60 else ''}"
        )
