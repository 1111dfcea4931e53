"""Turns inputs into segments of token ids: the sentences of running text, the parts of what is too long."""

from __future__ import annotations

__all__ = ["Reader"]

import logging
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from s2s.data.invisible import visible
from s2s.errors import DataError, PluginError
from s2s.generation.context import with_previous_pieces
from s2s.generation.inputs import InputFields, sentence_constraint, sentence_notes, sentence_revision
from s2s.generation.kept_parts import KeptParts
from s2s.generation.literals import NOTHING, Literals
from s2s.generation.piece_inputs import piece_inputs
from s2s.generation.segments import Segment, SourcePart, unbroken
from s2s.generation.text_layout import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.config import GenerateConfig
    from s2s.decoding import SentenceConstraint
    from s2s.generation.candidates import Counts, Input
    from s2s.generation.inputs import RequestConstraints
    from s2s.generation.kept_parts import Part
    from s2s.generation.text_layout import TextLayout, Unit
    from s2s.task import Example, Task

logger = logging.getLogger(__name__)


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
        self.keep = KeptParts(config.keep if layout else (), task.covers)
        self.literals = Literals(task, self.keep)
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
                self._count_unknown(some, segments[-1])
            except DataError as erroneous:
                return segments, erroneous
        return segments, error

    def _parts(self, inputs: Sequence[Input], unit: Unit | None) -> tuple[list[list[SourcePart]], DataError | None]:
        """The parts of each input, up to the first that is erroneous, and its error."""
        parts: list[list[SourcePart]] = []
        for given in inputs:
            try:
                one = self.complete(given)
                if self.layout is None:
                    parts.append([self._part(Piece("", one.src), one, ())])
                    continue
                language = self.task.source_language(one.fields)
                kept = self.keep(one.src, one.spans)
                pieces_of = partial(self.layout.pieces, language=language, unit=unit)
                pieces = list(unbroken(one.src, kept, pieces_of, trims=not one.prefix and not any(one.phrases)))
                sources = piece_inputs(one, [piece for piece, _ in pieces], self.layout)
                n_given = sum(bool(source.prefix) for source in sources) - 1
                built = zip(pieces, self._in_context(sources, unit), strict=True)
                parts.append(
                    [
                        self._part(piece, source, some, is_complete=n < n_given)
                        for n, ((piece, some), source) in enumerate(built)
                    ]
                )
            except DataError as error:
                return parts, error
        return parts, None

    def complete(self, one: Input) -> Input:
        """The input with all its fields, those that a text without spans names at its beginning among them."""
        if not one.spans:
            named, src = self.task.leading_fields(one.src)
            one = (
                replace(one, src=src, fields={**named, **one.fields})
                if named.keys() - {*one.fields, *one.record}
                else one
            )
        fields = self.fields(one)
        return one if fields == one.fields else replace(one, fields=fields)

    def _part(self, piece: Piece, source: Input, kept: Sequence[Part], *, is_complete: bool = False) -> SourcePart:
        """is_complete: whether the prefix is the whole output of the piece."""
        required = NOTHING
        if source.prefix or any(source.phrases):
            required, source, kept = self.literals.required(source, kept, is_complete=is_complete)
        shown, n_tokens = (visible, self._n_tokens) if self.layout else (str, len)
        part = SourcePart.build(piece, source, kept, shown, n_tokens, required)
        return part.annotated(sentence_notes(self.config, self.task, source, self.constraints))

    def _in_context(self, pieces: list[Input], unit: Unit | None) -> list[Input]:
        """The pieces of one input, each with those before it as context, if the task reads any."""
        if not self.task.context or self.layout is None:
            return pieces
        return with_previous_pieces(pieces, self.task, self.layout, unit)

    def _encoded(self, inputs: Sequence[Example]) -> list[list[int]]:
        """The ids of each input, behind as much of its context as there is room for; a blank line is read as an empty
        one. Raises PluginError for ids of no such token."""
        name = type(self.task).__name__
        shown = zip(inputs, [self._read(one.src) for one in inputs], strict=True)
        encoded = self.task.encode_inputs([one if text == one.src else replace(one, src=text) for one, text in shown])
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

    def _n_tokens(self, text: str) -> int:
        return len(self.task.encode_source([text])[0])

    def _read(self, text: str) -> str:
        """What a task reads of a text: of running text, as the tokenisers of older runs do not, what is visible."""
        text = visible(text) if self.layout else text
        return text if text.strip() else ""

    def _starting_tokens(self, source: Example) -> Sequence[int]:
        """The starting tokens of an input whose task gives it some, else none."""
        codes = self.task.forced_tokens(source)
        return self.task.vocab.started(codes) if codes else ()

    def _segments(self, part: SourcePart, ids: list[int]) -> list[Segment]:
        """One segment, or one for each sentence of a part that is too long and has no constraint of its own."""
        constraint = sentence_constraint(self.config, self.task, part.source, self.constraints)
        if not ids and constraint is not None:
            if not part.required or self.task.spellings() is None:
                raise DataError("an input without tokens has an empty output; leave out its prefix and phrases")
            constraint = None
        whole = self._segment(part, ids, constraint)
        if len(ids) < self.longest:
            return [whole]
        if self.config.too_long == "error":
            raise DataError(f"{self._too_long(whole.src, len(ids))}; shorten it, or give too_long=split")
        if self.config.too_long == "truncate" or constraint is not None or self.layout is None:
            return [whole]
        return self._sentences(part, self.layout)

    def _segment(self, part: SourcePart, ids: list[int], constraint: SentenceConstraint | None = None) -> Segment:
        """A part as one segment, with what may be decoded instead."""
        segment = Segment(
            part.piece.text,
            ids,
            constraint,
            starting_tokens=self._starting_tokens(part.example),
            before=part.piece.before,
            after=part.piece.after,
            source=part.text if part.text.read != part.piece.text else None,
            align=bool(part.text.taken_out or part.source.spans),
            required=part.required,
            left_in=part.left_in,
            revision=sentence_revision(self.config, self.task, part.translated, self.constraints) if ids else None,
        )
        if part.rest is None:
            return segment
        (ids,) = self._encoded([replace(part.example, src=part.rest.read)])
        return replace(
            segment,
            instead=replace(segment, ids=self.task.cut_source(ids, self.longest - 1), source=part.rest, align=True),
        )

    def _sentences(self, part: SourcePart, layout: TextLayout) -> list[Segment]:
        """The sentences of a part, which together replace the segment of the whole part."""
        before, text, after = part.piece
        language = self.task.source_language(part.source.fields)
        pieces = list(unbroken(text, part.kept, partial(layout.pieces, language=language, unit="sentence")))
        sources = self._in_context([replace(part.source, src=piece.text) for piece, _ in pieces], "sentence")
        built = zip(pieces, sources, strict=True)
        sentences = [self._part(piece, source, kept) for (piece, kept), source in built]
        encoded = self._encoded([sentence.example for sentence in sentences])
        some = list(map(self._segment, sentences, encoded))
        some[0] = replace(some[0], before=before + some[0].before)
        some[-1] = replace(some[-1], after=some[-1].after + after)
        return some

    def _counted(self, segments: list[Segment]) -> list[Segment]:
        """The segments of one input, each truncated to the maximum length; counts what is special about them."""
        self.counts.split += len(segments) > 1
        if self.longest_trained is not None:
            self._count_longer(segments, self.longest_trained)
        return self._truncated(segments)

    def _count_unknown(self, parts: Sequence[SourcePart], segments: Sequence[Segment]) -> None:
        """Count an input with a symbol without a token, whether it is read as unknown or copied."""
        if not self.task.vocab.unknown:
            are_copied = any(kept.is_unknown for part in parts for kept in part.kept)
            self.counts.unknown += are_copied or any(self.task.vocab.unk in segment.ids for segment in segments)

    def _count_longer(self, segments: Sequence[Segment], longest: int) -> None:
        longer = [segment for segment in segments if segment.n_read(self._n_tokens) > longest]
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
        return [replace(one, ids=self.task.cut_source(one.ids, room)) for one in segments] if too_long else segments

    def _too_long(self, line: str, n: int) -> str:
        return (
            f"an input of {n + 1:,} tokens is longer than the {self.longest:,} allowed (max_source, or "
            f"the model's own limit): {line[:60]!r}{'…' if len(line) > 60 else ''}"
        )
