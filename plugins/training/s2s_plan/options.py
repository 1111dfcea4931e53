"""train.budget, the option of a run whose length is measured."""

from __future__ import annotations

__all__ = ["PlanConfig", "plan_options"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from s2s.config import NEUTRAL, TrainConfig
from s2s_plan.duration import parse_duration

if TYPE_CHECKING:
    from s2s.config import Config


@dataclass(kw_only=True)
class PlanConfig(TrainConfig):
    """The option of a run whose length is measured."""

    budget: str = field(default="", metadata=NEUTRAL)
    """Time for updates and validations, such as 30m, 2h or 1h30m: train.steps, the schedule and the intervals follow
    from the speed that is measured when the run begins. Empty: train.steps applies."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget:
            parse_duration(self.budget, "train.budget")

    @property
    def budget_seconds(self) -> float | None:
        """budget in seconds; None where none is given."""
        return parse_duration(self.budget, "train.budget") if self.budget else None


def plan_options(config: Config) -> PlanConfig:
    """The options of updates, as composed with those of this plugin."""
    assert isinstance(config.train, PlanConfig)
    return config.train
