"""The learning rates of a run: those of its schedule, checked before use, with an end that moves with the run's."""

from __future__ import annotations

__all__ = ["checked", "following"]

import math
from typing import TYPE_CHECKING, Any

from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.log.log import RunLength
    from s2s.optim import Schedule
    from s2s.registry import Choice


def following(build: Callable[[Choice], Schedule], config: Choice, length: RunLength) -> Schedule:
    """The schedule of `config`; one whose option `steps` is the run's length is stretched when the length is moved.

    Between two of its updates, the rate is on the line through theirs, since a schedule may need whole numbers.
    """
    options: Any = config  # only some have an end
    schedule = build(config)
    if getattr(options, "steps", None) != length.n_steps:
        return schedule

    def stretched(step: int) -> float:
        share, whole = math.modf(length.position(step))
        rate = schedule(int(whole))
        return rate + share * (schedule(int(whole) + 1) - rate) if share else rate

    return stretched


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
