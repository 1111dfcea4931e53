"""From inputs to segments of token ids; inputs that are too long are split or truncated."""

from __future__ import annotations

__all__ = ["Reader", "Segment"]

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.decoding.lexical import NO_CONSTRAINT, LexicalConstraint
from s2s.errors import DataError
from s2s.task import Example

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.config import GenerateConfig
    from s2s.generation.candidates import Counts, Input
    from s2s.task import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Segment:
    """An input, or one part of an input that is too long."""

    src: str
    ids: list[int]
    """Without eos; empty: there is nothing to search"""
    lexical: LexicalConstraint = NO_CONSTRAINT


class Reader:
    """Makes segments of at most `longest` tokens, eos included."""

    def __init__(self, task: Task, config: GenerateConfig, longest: int, counts: Counts) -> None:
        self.task, self.config, self.longest, self.counts = task, config, longest, counts

    def __call__(self, inputs: Sequence[Input]) -> tuple[list[list[Segment]], DataError | None]:
        """The segments of each input; of an erroneous input, the error, and the segments of those before it."""
        encoded = self._encoded([given.src for given in inputs])
        segments: list[list[Segment]] = []
        for given, ids in zip(inputs, encoded, strict=True):
            try:
                segments.append(self._segments(given, ids, self._lexical(given)))
            except DataError as error:
                return segments, error
        return segments, None

    def _encoded(self, lines: Sequence[str]) -> list[list[int]]:
        ids_of_filled = iter(self.task.encode_source([line for line in lines if line.strip()]))
        return [next(ids_of_filled) if line.strip() else [] for line in lines]

    def _segments(self, given: Input, ids: list[int], lexical: LexicalConstraint) -> list[Segment]:
        """One, or one for each part of an input that is too long and has no lexical constraint."""
        if len(ids) < self.longest:
            return [Segment(given.src, ids, lexical)]
        if self.config.too_long == "error":
            raise DataError(f"{self._too_long(given.src, len(ids))}; shorten it, or give too_long=split")
        parts = self.task.split(given.src) if self.config.too_long == "split" and lexical == NO_CONSTRAINT else []
        segments = [Segment(part, of) for part, of in zip(parts, self._encoded(parts), strict=True) if of]
        if len(segments) < 2:
            segments = [Segment(given.src, ids, lexical)]
        self.counts.split += len(segments) > 1
        return self._truncated(segments)

    def _truncated(self, segments: list[Segment]) -> list[Segment]:
        """The segments of one input, each cut to the longest allowed."""
        room = self.longest - 1  # for eos
        too_long = [segment for segment in segments if len(segment.ids) > room]
        if too_long and not self.counts.truncated:
            worst = max(too_long, key=lambda segment: len(segment.ids))
            logger.warning("%s; truncated, as all others will be", self._too_long(worst.src, len(worst.ids)))
        self.counts.truncated += bool(too_long)
        return [Segment(segment.src, segment.ids[:room], segment.lexical) for segment in segments]

    def _lexical(self, given: Input) -> LexicalConstraint:
        """The prefix and phrases of the output as target tokens."""
        texts = [text for text in (given.prefix, *given.phrases) if text]
        if not texts:
            return NO_CONSTRAINT
        ids = [pair.tgt for pair in self.task.encode([Example(given.src, text) for text in texts])]
        for text, tokens in zip(texts, ids, strict=True):
            if not tokens:
                raise DataError(
                    f"{text!r} has no tokens in task={self.task.config.name}; leave it out of prefix and phrases"
                )
            if self.task.vocab.unk in tokens:
                raise DataError(
                    f"{text!r} has symbols that are not in the vocabulary of task={self.task.config.name}, and would "
                    "not come out as it is; leave it out of prefix and phrases"
                )
        n_prefix = 1 if given.prefix else 0
        return LexicalConstraint(ids[0] if n_prefix else (), ids[n_prefix:])

    def _too_long(self, line: str, n: int) -> str:
        return (
            f"an input of {n + 1:,} tokens is longer than the {self.longest:,} allowed (max_source, or "
            f"the model's own limit): {line[:60]!r}{'…' if len(line) > 60 else ''}"
        )
