"""Builds metrics from their names and options."""

from __future__ import annotations

__all__ = ["build_metrics"]

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from s2s.compose import entry_config
from s2s.compose.options import Option, options_of
from s2s.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from s2s.metrics import Metric
    from s2s.registry import Entry, Registry
    from s2s.task import Task


OF_TEXTS = ("bleu", "chrf")
"""The metrics of texts without a task"""


def build_metrics(
    task: Task | None,
    registry: Registry,
    requested: Any = None,
    options: Mapping[str, Any] = MappingProxyType({}),
    command_options: Sequence[str] = (),
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> list[Metric]:
    """The metrics in `requested`, or else the task's own: each a name, or {name: bleu, tokenize: intl}.

    task: None: outputs and references are texts in no known language.
    `options` apply to every metric that has them, unless `requested` sets them; ConfigError if none has one, with
    a suggestion that may be an option of the command itself (`command_options`). `defaults` are further ones of metrics
    that have them. The second metric of a name is called bleu-2, so that scores have different names.
    """
    default, task_options = (task.metrics, task.metric_options) if task else (OF_TEXTS, {})
    specs = default if requested is None else requested
    if isinstance(specs, str | Mapping):
        specs = [specs]
    if not isinstance(specs, Sequence):
        raise ConfigError(f"metrics={specs}: give a list, such as metrics=[bleu,chrf]")
    chosen = [_chosen(spec, registry) for spec in specs]
    _check_known(options, [entry for entry, _ in chosen], command_options)
    metrics = [_build(entry, {**task_options, **defaults, **options}, own_options) for entry, own_options in chosen]
    seen: Counter[str] = Counter()
    for metric in metrics:
        seen[metric.name] += 1
        if seen[metric.name] > 1:
            metric.name = f"{metric.name}-{seen[metric.name]}"
    return metrics


def _chosen(spec: Any, registry: Registry) -> tuple[Entry, Mapping[str, Any]]:
    """The registered metric and its options, with its name."""
    own_options = {"name": spec} if isinstance(spec, str) else spec
    if not isinstance(own_options, Mapping) or not isinstance(own_options.get("name"), str):
        raise ConfigError(f"metrics=[{spec}]: give a name, or options with a name: {{name: bleu, tokenize: intl}}")
    return registry.get("metric", own_options["name"]), own_options


def _options(entry: Entry) -> dict[str, Option]:
    return {option.field.name: option for option in options_of(entry.config, f"metrics.{entry.name}.")}


def _check_known(options: Mapping[str, Any], entries: Sequence[Entry], command_options: Sequence[str]) -> None:
    known = {name for entry in entries for name in _options(entry)} - {"name"}
    for key in options:
        if key not in known:
            metrics = ", ".join(dict.fromkeys(entry.name for entry in entries))
            hint = did_you_mean(key, [*known, *command_options])
            raise ConfigError(f"{key}: no such option of the command or of its metrics here ({metrics}).{hint}")


def _build(entry: Entry, defaults: Mapping[str, Any], own_options: Mapping[str, Any]) -> Metric:
    known = _options(entry)
    chosen = {key: value for key, value in defaults.items() if key in known} | dict(own_options)
    return entry.build(entry_config(entry, chosen, f"metrics.{entry.name}"))
