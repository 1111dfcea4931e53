"""From inputs to what is searched: ids, cut or taken apart where they are too long."""

from __future__ import annotations

__all__ = ["Reader", "Unit"]

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
class Unit:
    """What is searched at once: an input, or one of the parts of an input that is too long."""

    src: str
    ids: list[int]
    """Without eos; none: there is nothing to search"""
    wish: LexicalConstraint = NO_CONSTRAINT


class Reader:
    """Makes units of inputs of at most `longest` symbols, with eos."""

    def __init__(self, task: Task, config: GenerateConfig, longest: int, counts: Counts) -> None:
        self.task, self.config, self.longest, self.counts = task, config, longest, counts

    def __call__(self, inputs: Sequence[Input]) -> tuple[list[list[Unit]], DataError | None]:
        """The units of each input; of those before the first that is an error, and that error."""
        encoded = self._encoded([given.src for given in inputs])
        units: list[list[Unit]] = []
        for given, ids in zip(inputs, encoded, strict=True):
            try:
                wish = self._wish(given)
                units.append(self._units(given, ids, wish))
            except DataError as error:
                return units, error
        return units, None

    def _encoded(self, lines: Sequence[str]) -> list[list[int]]:
        ids_of_filled = iter(self.task.encode_source([line for line in lines if line.strip()]))
        return [next(ids_of_filled) if line.strip() else [] for line in lines]

    def _units(self, given: Input, ids: list[int], wish: LexicalConstraint) -> list[Unit]:
        """One, or where an input is too long and nothing is asked of its output, one for each part."""
        if len(ids) < self.longest:
            return [Unit(given.src, ids, wish)]
        if self.config.too_long == "error":
            raise DataError(f"{self._too_long(given.src, len(ids))}; shorten it, or give too_long=split")
        parts = self.task.split(given.src) if self.config.too_long == "split" and wish == NO_CONSTRAINT else []
        units = [Unit(part, of) for part, of in zip(parts, self._encoded(parts), strict=True) if of]
        if len(units) < 2:
            units = [Unit(given.src, ids, wish)]
        self.counts.split += len(units) > 1
        return self._cut(units)

    def _cut(self, units: list[Unit]) -> list[Unit]:
        """Of one input."""
        room = self.longest - 1  # for eos
        too_long = [unit for unit in units if len(unit.ids) > room]
        if too_long and not self.counts.truncated:
            worst = max(too_long, key=lambda unit: len(unit.ids))
            logger.warning("%s; cut, and so will others be", self._too_long(worst.src, len(worst.ids)))
        self.counts.truncated += bool(too_long)
        return [Unit(unit.src, unit.ids[:room], unit.wish) for unit in units]

    def _wish(self, given: Input) -> LexicalConstraint:
        """What is asked of the output, as the task writes it."""
        texts = [text for text in (given.prefix, *given.phrases) if text]
        if not texts:
            return NO_CONSTRAINT
        ids = [pair.tgt for pair in self.task.encode([Example(given.src, text) for text in texts])]
        for text, symbols in zip(texts, ids, strict=True):
            if not symbols:
                raise DataError(
                    f"{text!r} has no symbols in task={self.task.config.name}; nothing can be asked with it"
                )
        n_prefix = 1 if given.prefix else 0
        return LexicalConstraint(ids[0] if n_prefix else (), ids[n_prefix:])

    def _too_long(self, line: str, n: int) -> str:
        return (
            f"an input of {n + 1:,} symbols is longer than the {self.longest:,} allowed (max_source, or "
            f"the model's own limit): {line[:60]!r}{'…' if len(line) > 60 else ''}"
        )
