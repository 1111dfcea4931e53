"""Several tasks at once, as a plugin: inputs and outputs begin with their task, as in `parse: the cat sleeps`."""

from __future__ import annotations

__all__ = ["MultitaskConfig", "OnTaskConfig"]

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from s2s import Choice, ConfigError, Registry, did_you_mean, hookimpl

if TYPE_CHECKING:
    from s2s_multitask.metric import OnTask
    from s2s_multitask.task import Multitask


@dataclass(kw_only=True)
class MultitaskConfig(Choice):
    """Tasks that are trained together, mixed by a ratio (Luong et al., 2015)."""

    tasks: dict[str, Any] = field(default_factory=dict, metadata={"names": "task"})
    """The tasks, by names of your own: {translate: {name: translation, …}, parse: {name: parsing, …}}, each a task with
    its options."""
    ratio: dict[str, float] = field(default_factory=dict)
    """How often each pair of a task occurs in one epoch, times the weight of its corpus: {parse: 0.1}; default 1."""

    def __post_init__(self) -> None:
        for name, options in self.tasks.items():
            if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
                raise ConfigError(f"task.tasks.{name}: a name is letters, digits and _, a letter first")
            if not isinstance(options, Mapping) or not isinstance(options.get("name"), str):
                raise ConfigError(f"task.tasks.{name} must name a task; give task.tasks.{name}.name=TASK")
        for name, ratio in self.ratio.items():
            if name not in self.tasks:
                raise ConfigError(f"task.ratio.{name}: no such task here.{did_you_mean(name, self.tasks)}")
            if not 0 <= ratio < float("inf"):
                raise ConfigError(f"task.ratio.{name}={ratio}: give a number from 0 up")


@dataclass(kw_only=True)
class OnTaskConfig(Choice):
    """Another metric on the lines of one task: those whose reference begins with its name."""

    task: str = ""
    """Name of the task, as in task.tasks."""
    of: dict[str, Any] = field(default_factory=dict)
    """The metric, by its name and with its options."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The task, and the metric that scores one of its tasks."""
    registry.task("multitask", MultitaskConfig, partial(_build, registry))
    registry.metric("on_task", OnTaskConfig, partial(_build_metric, registry))


def _build(registry: Registry, config: MultitaskConfig) -> Multitask:
    from s2s_multitask.task import Multitask  # imports torch

    return Multitask(config, registry)


def _build_metric(registry: Registry, config: OnTaskConfig) -> OnTask:
    from s2s.compose import entry_config
    from s2s_multitask.metric import OnTask

    if not config.task or not isinstance(config.of.get("name"), str):
        raise ConfigError("metrics.on_task needs a task and a metric: {name: on_task, task: parse, of: {name: …}}")
    entry = registry.get("metric", config.of["name"])
    return OnTask(config.task, entry.build(entry_config(entry, config.of, f"metrics.on_task.of.{entry.name}")))
