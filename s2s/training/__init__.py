"""Training: from a configuration to the last checkpoint. `trainer` is the loop; the other modules are its parts."""

from __future__ import annotations

__all__ = ["BatchPlan", "Planner", "TrainStep", "Trainer", "time_updates", "trial_run"]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.training.batch_plan import BatchPlan
    from s2s.training.planner import Planner
    from s2s.training.train_step import TrainStep
    from s2s.training.trainer import Trainer
    from s2s.training.trial import time_updates, trial_run

__getattr__ = lazy_names(__name__, "batch_plan", "planner", "train_step", "trainer", "trial")
