"""The cells of a study's table, and verdicts on differences that were published."""

from __future__ import annotations

__all__ = ["VERDICTS", "Cell", "Line", "corrected"]

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from s2s_study.t_test import holm

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVEL = 0.05
"""A corrected p below it is taken for a difference"""
VERDICTS = (
    f"Verdicts: agrees: differs from the first row with a corrected p below {LEVEL}, in the published direction; "
    "contradicts: differs so in the other direction, or where the published values are equal; open: neither."
)


@dataclass(frozen=True)
class Cell:
    """One measure of one row."""

    values: tuple[float, ...]
    """One for each seed; empty if unknown"""
    low: float | None = None
    """Lower end of the 95% interval: over seeds by Student's t, or with one seed over sentences by bootstrap"""
    high: float | None = None
    difference: float | None = None
    """From the first row, where the measure is compared"""
    p_seeds: float | None = None
    """p-value of the difference, over seeds (Welch)"""
    p_holm: float | None = None
    """The same, corrected for the number of rows (Holm)"""
    p_sentences: float | None = None
    """p-value of the difference, over sentences by paired bootstrap on the outputs of all seeds together"""
    published: float | None = None
    """The difference of the rows' published values"""

    @property
    def mean(self) -> float | None:
        """The mean over seeds."""
        return float(np.mean(self.values)) if self.values else None

    @property
    def verdict(self) -> str:
        """agrees, contradicts or open, as VERDICTS says; empty if no difference is published, or none is known."""
        if self.published is None or self.difference is None:
            return ""
        if self.p_holm is None or self.p_holm >= LEVEL:
            return "open"
        return "agrees" if self.difference * self.published > 0 else "contradicts"


@dataclass(frozen=True)
class Line:
    """The results of a row, a line of the table."""

    name: str
    cells: Mapping[str, Cell] = field(default_factory=dict)
    finished: int = 0
    jobs: int = 0


def corrected(lines: Sequence[Line], measures: Sequence[str]) -> list[Line]:
    """The lines with p over seeds of each measure corrected for the number of rows that have one."""
    cells = [dict(line.cells) for line in lines]
    for measure in measures:
        tested = [(row, p) for row in cells if measure in row and (p := row[measure].p_seeds) is not None]
        for (row, _), p in zip(tested, holm([p for _, p in tested]), strict=True):
            row[measure] = replace(row[measure], p_holm=p)
    return [replace(line, cells=row) for line, row in zip(lines, cells, strict=True)]
