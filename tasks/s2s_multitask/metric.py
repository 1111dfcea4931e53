"""A metric on the lines of one of several tasks."""

from __future__ import annotations

__all__ = ["OnTask"]

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from s2s.metrics import Metric, PairedTest, Score
from s2s_multitask.task_prefix import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class OnTask(Metric):
    """Scores with `metric` the lines whose reference begins with the name of `task`, without the prefix."""

    def __init__(self, task: str, metric: Metric) -> None:
        self.task, self.metric = task, metric
        self.name, self.higher_is_better = f"{task}/{metric.name}", metric.higher_is_better

    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        """The metric's score on the task's lines; NaN if there are none."""
        rows = self._rows(refs)
        if not rows:
            return Score(self.name, math.nan, f"task:{self.task}|lines:0")
        score = self.metric(self._own(hyps, rows), [self._own(of, rows) for of in refs], samples, seed)
        return replace(score, name=self.name, signature=f"task:{self.task}|lines:{len(rows)}|{score.signature}")

    def per_sentence(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """The metric's rows, and NaN for the lines of other tasks."""
        rows = self._rows(refs)
        if not rows:
            return [{"score": math.nan} for _ in hyps]
        scores = self.metric.per_sentence(self._own(hyps, rows), [self._own(of, rows) for of in refs])
        by_row = dict(zip(rows, scores, strict=True))
        return [by_row.get(row, dict.fromkeys(scores[0], math.nan)) for row in range(len(hyps))]

    def p_values(
        self, baseline: Sequence[str], systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]], test: PairedTest
    ) -> list[float]:
        """The metric's p-values on the task's lines."""
        rows = self._rows(refs)
        if not rows:
            return [math.nan for _ in systems]
        baseline_lines, *others = (self._own(lines, rows) for lines in (baseline, *systems))
        return self.metric.p_values(baseline_lines, others, [self._own(of, rows) for of in refs], test)

    def _rows(self, refs: Sequence[Sequence[str]]) -> list[int]:
        return [row for row, line in enumerate(refs[0]) if text_of(line, self.task) is not None]

    def _own(self, lines: Sequence[str], rows: Sequence[int]) -> list[str]:
        """The lines without the prefix; a line of another task is empty."""
        return [text_of(lines[row], self.task) or "" for row in rows]
