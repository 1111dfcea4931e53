"""From the names of metrics, with or without options, to metrics."""

from __future__ import annotations

__all__ = ["build_metrics"]

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from s2s.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from s2s.metrics import Metric
    from s2s.registry import Registry
    from s2s.task import Task


def build_metrics(task: Task, registry: Registry, wanted: Any = None) -> list[Metric]:
    """The metrics in `wanted`, or else the task's own: each a name, or {name: bleu, tokenize: intl}."""
    specs = task.metrics if wanted is None else wanted
    if isinstance(specs, str | Mapping):
        specs = [specs]
    if not isinstance(specs, Sequence):
        raise ConfigError(f"metrics={specs}: give a list, such as metrics=[bleu,chrf]")
    return [_build(spec, registry, task.metric_options) for spec in specs]


def _build(spec: Any, registry: Registry, defaults: Mapping[str, Any]) -> Metric:
    options = {"name": spec} if isinstance(spec, str) else spec
    if not isinstance(options, Mapping) or not isinstance(options.get("name"), str):
        raise ConfigError(
            f"metrics=[{spec}]: give a name, or options with a name: {{name: bleu, tokenize: intl}}"
        )
    entry = registry.get("metric", options["name"])
    known = {field.name for field in fields(entry.config)}
    for key in options:
        if key not in known:
            raise ConfigError(
                f"metric {entry.name}: no option '{key}'.{did_you_mean(str(key), known - {'name'})}"
            )
    options = {k: v for k, v in defaults.items() if k in known} | dict(options)
    try:
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(entry.config), options))
    except OmegaConfBaseException as error:
        raise ConfigError(f"metric {entry.name}: {error.full_key}: {str(error).splitlines()[0]}") from error
    return entry.build(config)
