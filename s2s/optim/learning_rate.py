"""Learning rates of a schedule, checked before an update uses them."""

from __future__ import annotations

__all__ = ["checked"]

import math
from typing import TYPE_CHECKING, Any

from s2s.errors import ConfigError

if TYPE_CHECKING:
    from s2s.optim import Schedule


def checked(schedule: Schedule, name: str) -> Schedule:
    """The schedule; raises ConfigError where its rate is no number, negative or not finite."""

    def rate(step: int) -> float:
        value: Any = schedule(step)
        try:
            lr = float(value)  # of a tensor, too, which the log could not hold
        except (TypeError, ValueError, RuntimeError):
            lr = math.nan
        if not 0 <= lr < math.inf:
            raise ConfigError(
                f"schedule={name} gives update {step:,} the learning rate {value}; it must be finite and not negative"
            )
        return lr

    return rate
