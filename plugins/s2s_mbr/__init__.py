"""Minimum Bayes risk: s2s-generate mbr=METRIC. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_finish_outputs"]

from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    from s2s import Plugins, Task
    from s2s.config import GenerateConfig
    from s2s_mbr.stage import MinimumBayesRisk


@hookimpl
def s2s_finish_outputs(config: GenerateConfig, task: Task, plugins: Plugins) -> MinimumBayesRisk | None:
    """A stage, if a metric is given."""
    if not config.mbr:
        return None
    from s2s.metrics import build_metrics
    from s2s_mbr.stage import MinimumBayesRisk

    (metric,) = build_metrics(task, plugins.registry, [config.mbr])
    return MinimumBayesRisk(metric, config.mbr_weights)
