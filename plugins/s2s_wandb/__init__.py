"""Runs in Weights & Biases: s2s-train … plugins=[s2s_wandb], with WANDB_PROJECT and its like as wandb reads them.

WANDB_MODE=offline writes the same below the run's directory, for `wandb sync` later. A run that continues goes on.
"""

from __future__ import annotations

__all__ = ["s2s_step_end", "s2s_train_end", "s2s_train_start", "s2s_validation_end"]

import hashlib
import os
from typing import TYPE_CHECKING, Any

from s2s import PluginError, hookimpl
from s2s.compose import flatten
from s2s.log import scalars

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.training import Trainer


@hookimpl
def s2s_train_start(trainer: Trainer) -> None:
    """Begin the run there, or go on with it."""
    if not trainer.world.is_main:
        return
    wandb = _wandb()
    directory = trainer.directory.absolute()
    wandb.init(
        project=os.environ.get("WANDB_PROJECT", "s2s"),
        name=os.environ.get("WANDB_NAME", directory.name),
        id=os.environ.get("WANDB_RUN_ID", hashlib.sha256(bytes(directory)).hexdigest()[:16]),
        dir=directory,
        resume="allow",
        reinit="finish_previous",
        config=flatten(trainer.config),
    )


@hookimpl
def s2s_step_end(trainer: Trainer, record: Mapping[str, Any]) -> None:
    """Every log.every updates."""
    every = trainer.config.log.every
    if trainer.world.is_main and every and record["step"] % every == 0:
        _wandb().log(scalars("train", record), step=record["step"])


@hookimpl
def s2s_validation_end(trainer: Trainer, record: Mapping[str, Any]) -> None:
    """Loss and scores."""
    if trainer.world.is_main:
        _wandb().log(scalars("valid", record), step=record["step"])


@hookimpl
def s2s_train_end(trainer: Trainer, record: Mapping[str, Any]) -> None:
    """The summary."""
    if trainer.world.is_main:
        wandb = _wandb()
        wandb.run.summary.update(scalars("end", record))
        wandb.finish()


def _wandb() -> Any:
    try:
        import wandb
    except ImportError:
        raise PluginError("plugins=[s2s_wandb] needs wandb: pip install 's2s-toolkit[wandb]'") from None
    return wandb
