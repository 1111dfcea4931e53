"""The learning rates of a run: those of its schedule, checked before use, with an end that moves with the run's."""

from __future__ import annotations

__all__ = ["checked", "following"]

import math
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.log.log import RunLength
    from s2s.optim import Schedule
    from s2s.registry import Choice


def following(build: Callable[[Choice], Schedule], config: Choice, length: RunLength) -> Schedule:
    """The schedule of `config`; one whose option `steps` is the run's length is built anew for another length."""
    options: Any = config  # only some have an end
    if getattr(options, "steps", None) != length.n_steps:
        return build(config)

    @cache
    def schedule_until(n_steps: int) -> Schedule:
        return build(replace(options, steps=n_steps))

    return lambda step: schedule_until(length.n_steps)(step)


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
