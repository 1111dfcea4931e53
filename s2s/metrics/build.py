"""From the names of metrics, with or without options, to metrics."""

from __future__ import annotations

__all__ = ["build_metrics"]

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from s2s.compose import typed
from s2s.describe import options
from s2s.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from s2s.metrics import Metric
    from s2s.registry import Registry
    from s2s.task import Task


def build_metrics(task: Task, registry: Registry, wanted: Any = None) -> list[Metric]:
    """The metrics in `wanted`, or else the task's own: each a name, or {name: bleu, tokenize: intl}.

    The second of a name is called bleu-2: scores are told apart by their names.
    """
    specs = task.metrics if wanted is None else wanted
    if isinstance(specs, str | Mapping):
        specs = [specs]
    if not isinstance(specs, Sequence):
        raise ConfigError(f"metrics={specs}: give a list, such as metrics=[bleu,chrf]")
    metrics = [_build(spec, registry, task.metric_options) for spec in specs]
    seen: Counter[str] = Counter()
    for metric in metrics:
        seen[metric.name] += 1
        if seen[metric.name] > 1:
            metric.name = f"{metric.name}-{seen[metric.name]}"
    return metrics


def _build(spec: Any, registry: Registry, defaults: Mapping[str, Any]) -> Metric:
    given = {"name": spec} if isinstance(spec, str) else spec
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ConfigError(f"metrics=[{spec}]: give a name, or options with a name: {{name: bleu, tokenize: intl}}")
    entry = registry.get("metric", given["name"])
    known = {option.field.name: option for option in options(entry.config, f"metrics.{entry.name}.")}
    for key in given:
        if key not in known:
            hint = did_you_mean(str(key), known.keys() - {"name"})
            raise ConfigError(f"metrics.{entry.name}.{key}: no such option.{hint}")
    chosen = {key: value for key, value in defaults.items() if key in known} | dict(given)
    return entry.build(entry.config(**{key: typed(known[key], v, "command line") for key, v in chosen.items()}))
