"""The length of a run, which may change during training."""

from __future__ import annotations

__all__ = ["end_after"]

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from s2s.hooks import TrainerView


def end_after(trainer: TrainerView, step: int) -> None:
    """Make `step` the last update; a schedule that ended with the run still does. Every process must call it."""
    train = trainer.config.train
    schedule: Any = trainer.config.schedule  # only some have an end
    if getattr(schedule, "steps", None) == train.steps:
        schedule.steps = step
    train.steps = trainer.log.n_steps = step
