"""The paper's learning rate; a schedule is a function of the step, which counts from 1.

A schedule needs no state: resuming at a step gives that step's rate.
"""

from __future__ import annotations

__all__ = [
    "NoamConfig",
    "Schedule",
    "noam",
    "s2s_register",
]

from collections.abc import Callable
from dataclasses import dataclass

from omegaconf import II

from s2s.config.ranges import at_least, refuse_outside
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry

Schedule = Callable[[int], float]


@dataclass(kw_only=True)
class NoamConfig(Choice):
    """Linear warm-up, then decay with the inverse square root of the step (section 5.3, equation 3)."""

    d_model: int = II("arch.d_model")
    """Width of the model; follows the architecture."""
    warmup: int = 4000
    """Steps of linear increase."""
    scale: float = 1.0
    """Factor on the whole curve."""

    def __post_init__(self) -> None:
        refuse_outside("schedule", self, d_model=at_least(1), warmup=at_least(1), scale=at_least(0))


def noam(config: NoamConfig) -> Schedule:
    return lambda step: config.scale * config.d_model**-0.5 * min(step**-0.5, step * config.warmup**-1.5)


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.schedule("noam", NoamConfig, noam)
