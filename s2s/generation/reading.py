"""Turns inputs into segments of token ids; inputs that are too long are split or truncated."""

from __future__ import annotations

__all__ = ["Reader", "Segment"]

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from s2s.decoding import SentenceConstraint
from s2s.errors import DataError, PluginError
from s2s.generation.inputs import InputFields, sentence_constraint
from s2s.task import Example

if TYPE_CHECKING:
    from s2s.config import GenerateConfig
    from s2s.generation.candidates import Counts, Input
    from s2s.generation.inputs import RequestConstraints
    from s2s.task import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Segment:
    """An input, or one part of an input that is too long."""

    src: str
    ids: list[int]
    """Without eos; empty: there is nothing to search"""
    constraint: SentenceConstraint | None = None
    start: Sequence[int] = ()
    """See `SourceSentence.start`"""


class Reader:
    """Makes segments of at most `longest` tokens, eos included."""

    def __init__(
        self,
        task: Task,
        config: GenerateConfig,
        longest: int,
        counts: Counts,
        constraints: Sequence[RequestConstraints],
    ) -> None:
        self.task, self.config, self.longest, self.counts = task, config, longest, counts
        self.constraints = constraints
        self.fields = InputFields(task, [one.fields for one in constraints], config.input_fields)

    def __call__(self, inputs: Sequence[Input]) -> tuple[list[list[Segment]], DataError | None]:
        """The segments of each input; at an erroneous input, the error, and the segments of the inputs before it."""
        complete, error = self._complete(inputs)
        examples = [Example(one.src, fields=one.fields) for one in complete]
        segments: list[list[Segment]] = []
        for one, example, ids in zip(complete, examples, self._encoded(examples), strict=True):
            try:
                parts = self._segments(example, ids, sentence_constraint(self.task, one, self.constraints))
            except DataError as erroneous:
                return segments, erroneous
            start = self._start(example)
            segments.append([replace(part, start=start) for part in parts] if start else parts)
        return segments, error

    def _complete(self, inputs: Sequence[Input]) -> tuple[list[Input], DataError | None]:
        """The inputs with all fields that are read, up to the first whose fields are wrong, and its error."""
        complete: list[Input] = []
        for one in inputs:
            try:
                complete.append(replace(one, fields=self.fields(one)))
            except DataError as error:
                return complete, error
        return complete, None

    def _encoded(self, inputs: Sequence[Example]) -> list[list[int]]:
        """The ids of each input; a blank line is read as an empty one. Raises PluginError for ids of no such token."""
        name = type(self.task).__name__
        encoded = self.task.encode_inputs([one if one.src.strip() else replace(one, src="") for one in inputs])
        if len(encoded) != len(inputs):
            raise PluginError(f"{name}.encode_source gave {len(encoded)} lists of ids for {len(inputs)} lines")
        for ids in filter(None, encoded):
            if not 0 <= min(ids) <= max(ids) < self.task.vocab.src:
                raise PluginError(
                    f"{name}.encode_source: expected ids below {self.task.vocab.src}, vocab.src, got {ids}"
                )
        return encoded

    def _start(self, source: Example) -> Sequence[int]:
        """The starting tokens of an input whose task gives it some, else none."""
        codes = self.task.starting_tokens(source)
        return (*self.task.vocab.start, *codes) if codes else ()

    def _segments(self, source: Example, ids: list[int], constraint: SentenceConstraint | None) -> list[Segment]:
        """One segment, or one for each part of an input that is too long and has no constraint of its own."""
        if constraint is not None and not ids:
            raise DataError("an input without tokens has an empty output; leave out its prefix and phrases")
        if len(ids) < self.longest:
            return [Segment(source.src, ids, constraint)]
        if self.config.too_long == "error":
            raise DataError(f"{self._too_long(source.src, len(ids))}; shorten it, or give too_long=split")
        parts = self.task.split(source.src) if self.config.too_long == "split" and constraint is None else []
        encoded = self._encoded([replace(source, src=part) for part in parts])
        segments = [Segment(part, own) for part, own in zip(parts, encoded, strict=True) if own]
        if len(segments) < 2:
            segments = [Segment(source.src, ids, constraint)]
        self.counts.split += len(segments) > 1
        return self._truncated(segments)

    def _truncated(self, segments: list[Segment]) -> list[Segment]:
        """The segments of one input, each truncated to the maximum length."""
        room = self.longest - 1  # for eos
        too_long = [segment for segment in segments if len(segment.ids) > room]
        if too_long and not self.counts.truncated:
            worst = max(too_long, key=lambda segment: len(segment.ids))
            logger.warning("%s; truncated, as all others will be", self._too_long(worst.src, len(worst.ids)))
        self.counts.truncated += bool(too_long)
        return [Segment(segment.src, segment.ids[:room], segment.constraint) for segment in segments]

    def _too_long(self, line: str, n: int) -> str:
        return (
            f"an input of {n + 1:,} tokens is longer than the {self.longest:,} allowed (max_source, or "
            f"the model's own limit): {line[:60]!r}{'…' if len(line) > 60 else ''}"
        )
