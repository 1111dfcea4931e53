"""Runs in Weights & Biases: s2s-train … plugins=[s2s_wandb], with WANDB_PROJECT and the like as wandb reads them.

WANDB_MODE=offline writes the same to the run's directory, for `wandb sync` later. A continued run is resumed there.
"""

from __future__ import annotations

__all__ = ["Tracker", "s2s_observe"]

import hashlib
import os
from typing import TYPE_CHECKING, Any

from s2s import Observer, PluginError, hookimpl
from s2s.compose import flatten
from s2s.log import scalars

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s import TrainerView


class Tracker(Observer):
    """A W&B run, new or resumed; an error that ends training marks it as failed."""

    def __init__(self, trainer: TrainerView, wandb: Any) -> None:
        self.log = trainer.log
        directory = trainer.directory.absolute()
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "s2s"),
            name=os.environ.get("WANDB_NAME", directory.name),
            id=os.environ.get("WANDB_RUN_ID", hashlib.sha256(bytes(directory)).hexdigest()[:16]),
            dir=directory,
            resume="allow",
            reinit="finish_previous",
            config=flatten(trainer.config),
        )

    def is_due(self, step: int) -> bool:
        """With the lines of the log."""
        return self.log.is_due(step)

    def updated(self, record: Mapping[str, Any]) -> None:
        """Every log.every updates, and the last."""
        if self.log.is_due(record["step"]):
            self.run.log(scalars(record, "train/"), step=record["step"])

    def validated(self, record: Mapping[str, Any]) -> None:
        """Loss and scores."""
        self.run.log(scalars(record, "valid/"), step=record["step"])

    def finished(self, summary: Mapping[str, Any]) -> None:
        """The summary."""
        self.run.summary.update(scalars(summary, "end/"))

    def close(self, error: BaseException | None) -> None:
        """Send the rest."""
        self.run.finish(exit_code=0 if error is None else 1)


@hookimpl
def s2s_observe(trainer: TrainerView) -> Tracker | None:
    """On the first rank."""
    if not trainer.world.is_main:
        return None
    try:
        import wandb
    except ImportError:
        raise PluginError("plugins=[s2s_wandb] needs wandb: pip install wandb (extra wandb)") from None
    return Tracker(trainer, wandb)
