"""A learning rate schedule whose end moves with the end of the run."""

from __future__ import annotations

__all__ = ["following"]

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.log.length import RunLength
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
