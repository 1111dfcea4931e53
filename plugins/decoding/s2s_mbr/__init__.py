"""Minimum Bayes risk: s2s-generate mbr=METRIC. No torch at import."""

from __future__ import annotations

__all__ = ["MbrOptions", "s2s_finish_outputs", "s2s_register"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from s2s import Registry, hookimpl
from s2s.config import GenerateConfig, Mark, check_all_used

if TYPE_CHECKING:
    from s2s import Plugins, Task
    from s2s_mbr.stage import MinimumBayesRisk


@dataclass(kw_only=True)
class MbrOptions(GenerateConfig):
    """Minimum Bayes risk."""

    mbr: Any = field(default="", metadata=Mark.RERANKS)
    """Minimum Bayes risk: a metric by name, or as {name: chrf, word_order: 2}. Candidates are ranked by their mean
    metric score with every candidate as the reference, which becomes their score."""
    mbr_weights: Literal["uniform", "model"] = "uniform"
    """Weight of each text as a reference in that mean. uniform: the number of outputs with it, which suits samples.
    model: the sum of the probabilities of its different token sequences."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_all_used(self, "mbr_weights", "mbr", self.mbr)


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(MbrOptions)


@hookimpl
def s2s_finish_outputs(config: MbrOptions, task: Task, plugins: Plugins) -> MinimumBayesRisk | None:
    """The stage, if a metric is given."""
    if not config.mbr:
        return None
    from s2s.metrics import build_metrics
    from s2s_mbr.stage import MinimumBayesRisk

    (metric,) = build_metrics(task, plugins.registry, [config.mbr])
    return MinimumBayesRisk(metric, config.mbr_weights)
