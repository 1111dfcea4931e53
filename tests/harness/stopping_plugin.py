"""A local plugin that ends a run early: PATIENCE updates after the mean loss of the last three was lowest.

FORGETS=1: it keeps no state in checkpoints."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

from s2s import Observer, hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s import TrainerView


class Stopper(Observer):
    """Ends the run when the loss stays."""

    def __init__(self, trainer: TrainerView) -> None:
        self.trainer, self.patience = trainer, int(os.environ["PATIENCE"])
        self.recent, self.best, self.best_step = torch.full((3,), 1e9), 1e9, 0

    def state_dict(self) -> dict[str, Any]:
        if "FORGETS" in os.environ:
            return {}
        return {"recent": self.recent, "best": self.best, "best_step": self.best_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.recent, self.best, self.best_step = (state[name] for name in ("recent", "best", "best_step"))
        self._end_if_due()

    def updated(self, record: Mapping[str, Any]) -> None:
        self.recent = torch.cat([self.recent[1:], torch.tensor([record["loss"]])])
        if (mean := float(self.recent.mean())) < self.best:
            self.best, self.best_step = mean, record["step"]
        self._end_if_due()

    def _end_if_due(self) -> None:
        if (step := self.trainer.state.step) >= self.best_step + self.patience:
            self.trainer.length.n_steps = step


@hookimpl
def s2s_observe(trainer: TrainerView) -> Stopper:
    return Stopper(trainer)
