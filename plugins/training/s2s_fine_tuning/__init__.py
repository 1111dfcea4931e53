"""Stages of training: a run that starts from the weights of another run, and frozen parameters.

train.init_from, train.init_map and train.freeze; no torch at import.
"""

from __future__ import annotations

__all__ = ["FineTuningOptions", "s2s_prepare_model", "s2s_register"]

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from s2s import ConfigError, Registry, hookimpl
from s2s.config import Mark, TrainConfig

if TYPE_CHECKING:
    from pathlib import Path

    from s2s import Plugins, Seq2Seq, Task
    from s2s.config import Config
    from s2s.distributed import World


@dataclass(kw_only=True)
class FineTuningOptions(TrainConfig):
    """Weights to start from, and weights that stay as they are."""

    init_from: str | None = field(default=None, metadata=Mark.AT_START)
    """Run whose weights this one begins with, or RUN@CHECKPOINT (best, last, average, step-001000). Where vocabularies
    differ, rows of embeddings and of the output projection follow their tokens."""
    init_map: dict[str, str | None] = field(default_factory=dict, metadata=Mark.AT_START)
    """Where train.init_from finds a tensor: regular expression on the names of this model's tensors -> the name there,
    with \\1 for the first group; null keeps it as initialised. The first expression found in a name is used."""
    freeze: list[str] = field(default_factory=list)
    """Regular expressions, such as ^encoder or norm: parameters in whose names one is found are not trained."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, patterns in (("init_map", self.init_map), ("freeze", self.freeze)):
            for pattern in patterns:
                _check_expression(f"train.{option}", pattern)
        if self.init_from is None and any(name is not None for name in self.init_map.values()):
            raise ConfigError("train.init_map says what to take of another run; give train.init_from=RUN, too")


def _check_expression(option: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"{option}: {pattern!r} is no regular expression: {error}") from None


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(FineTuningOptions)


@hookimpl
def s2s_prepare_model(
    model: Seq2Seq, config: Config, task: Task, directory: Path, world: World, plugins: Plugins
) -> list[tuple[str, str]]:
    """Load the weights of another run, unless this one has a checkpoint of its own; then freeze parameters."""
    from s2s.checkpoint import latest
    from s2s_fine_tuning.freeze import freeze
    from s2s_fine_tuning.init_from import init_from

    options = cast("FineTuningOptions", config.train)
    begins = options.init_from is not None and latest(directory / "checkpoints").path is None
    loaded = init_from(model, config, task, directory / "tokenizer", plugins, world) if begins else []
    frozen = freeze(model, options.freeze)
    return [*(("init", line) for line in loaded), *(("frozen", line) for line in frozen)]
