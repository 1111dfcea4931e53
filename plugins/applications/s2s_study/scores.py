"""The scores of outputs by a task's metrics, in the form of a job's result."""

from __future__ import annotations

__all__ = ["scores_of"]

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.metrics import Metric


def scores_of(
    metrics: Iterable[Metric], hyps: Sequence[str], refs: Sequence[str], samples: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Name -> value, and name -> interval, signature and direction."""
    scored = [metric.scored(hyps, [refs], samples) for metric in metrics]
    scores = {
        score.name: {
            "low": score.low,
            "high": score.high,
            "signature": score.signature,
            "higher_is_better": score.higher_is_better,
        }
        for score in scored
    }
    return {score.name: score.value for score in scored}, scores
