"""The length of a run: train.budget, and the warm-up and intervals that follow from a number of updates."""

from __future__ import annotations

__all__ = ["MOST_EPOCHS", "VALIDATIONS", "PlanConfig", "interval", "plan_options", "time_to_end", "warmup"]

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from s2s import ConfigError
from s2s.config import Mark, TrainConfig

if TYPE_CHECKING:
    from s2s.config import Config

VALIDATIONS = 20
"""Validations in a run, so that the first comes within its first tenth"""
MOST_WARMUP = 4000
MOST_EPOCHS = 100
"""Maximum number of epochs planned; a run with more gets a warning"""

END = 3.0
"""Seconds for starting the process, and for what follows the last validation: the average, the report, the exit"""
SLOWEST = 5.0
"""Factor at most by which a busy machine lengthens END"""


def warmup(steps: int) -> int:
    """Warm-up updates: a tenth of the run, at most the paper's 4,000."""
    return max(min(steps // 10, MOST_WARMUP), 1)


def interval(steps: int) -> int:
    """Updates between two validations, and between two checkpoints."""
    return max(steps // VALIDATIONS, 1)


def time_to_end(passed: float) -> float:
    """Seconds for what follows the last validation, when so many have passed since the command began.

    More on a machine that is busy: there a process gets less of the processor's time than passes.
    """
    return END * min(max(passed / max(time.process_time(), 1e-3), 1.0), SLOWEST)


@dataclass(kw_only=True)
class PlanConfig(TrainConfig):
    """The option of a run whose length is measured."""

    budget: str = field(default="", metadata=Mark.NEUTRAL)
    """Time for updates and validations, such as 30m, 2h or 1h30m: train.steps, the schedule and the intervals follow
    from the speed that is measured when the run begins. Empty: train.steps applies."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.budget_seconds  # an error here names the option

    @property
    def budget_seconds(self) -> float | None:
        """budget in seconds; None where none is given."""
        return parse_duration(self.budget, "train.budget") if self.budget else None


def plan_options(config: Config) -> PlanConfig:
    """The options of updates, as composed with those of this plugin."""
    assert isinstance(config.train, PlanConfig)
    return config.train


SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_PARTS = re.compile(r"(?:(\d+(?:\.\d+)?)([dhms]))", re.ASCII)


def parse_duration(text: str, key: str) -> float:
    """Seconds in `text`, which the option `key` gave."""
    parts = _PARTS.findall(text.strip())
    if not parts or "".join(map("".join, parts)) != text.strip():
        raise ConfigError(f"{key}={text}: expected a time such as 90s, 30m, 2h or 1h30m")
    seconds = sum(float(number) * SECONDS[unit] for number, unit in parts)
    if not 0 < seconds <= 365 * SECONDS["d"]:
        raise ConfigError(f"{key}={text}: it must be more than 0 and at most a year")
    return seconds
