"""Schedules: the paper's, and those defined by their peak: a linear warm-up, then a decay or a constant rate."""

from __future__ import annotations

__all__ = [
    "ConstantConfig",
    "CosineConfig",
    "InverseSqrtConfig",
    "LinearConfig",
    "NoamConfig",
    "constant",
    "cosine",
    "inverse_sqrt",
    "linear",
    "noam",
]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from s2s import Choice
from s2s.config import at_least, check_ranges

if TYPE_CHECKING:
    from s2s.optim import Schedule


def _reference(key: str) -> Any:
    """`omegaconf.II`, without the 0.03 s that its import would add to the start of every command."""
    return f"${{{key}}}"


@dataclass(kw_only=True)
class NoamConfig(Choice):
    """Linear warm-up, then decay with the inverse square root of the step (section 5.3, equation 3)."""

    d_model: int = _reference("arch.d_model")
    """Width of the model; follows the architecture."""
    warmup: int = 4000
    """Steps of linear increase."""
    scale: float = 1.0
    """Factor on the whole curve."""

    def __post_init__(self) -> None:
        check_ranges("schedule", self, d_model=at_least(1), warmup=at_least(1), scale=at_least(0))


def noam(config: NoamConfig) -> Schedule:
    return lambda step: config.scale * config.d_model**-0.5 * min(step**-0.5, step * config.warmup**-1.5)


@dataclass(kw_only=True)
class PeakConfig(Choice):
    """A schedule defined by its peak."""

    lr: float = 5e-4
    """Learning rate at the end of the warm-up."""
    warmup: int = 4000
    """Steps of linear increase from 0; 0 starts at the peak."""

    def __post_init__(self) -> None:
        check_ranges("schedule", self, lr=at_least(0), warmup=at_least(0))


@dataclass(kw_only=True)
class InverseSqrtConfig(PeakConfig):
    """Warm-up to `lr`, then lr * sqrt(warmup / step): noam's shape with a given peak."""


@dataclass(kw_only=True)
class ConstantConfig(PeakConfig):
    """Warm-up to `lr`, then `lr`."""


@dataclass(kw_only=True)
class DecayConfig(PeakConfig):
    """A schedule that ends at a given step."""

    steps: int = _reference("train.steps")
    """Step at which `end` is reached; follows the run's length."""
    end: float = 0.0
    """Learning rate at the last step, and after it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("schedule", self, steps=at_least(0), end=at_least(0))


@dataclass(kw_only=True)
class LinearConfig(DecayConfig):
    """Warm-up to `lr`, then linear decay to `end`."""


@dataclass(kw_only=True)
class CosineConfig(DecayConfig):
    """Warm-up to `lr`, then decay to `end` along half a cosine (Loshchilov and Hutter, 2017)."""


def inverse_sqrt(config: InverseSqrtConfig) -> Schedule:
    return _warm(config, lambda step: config.lr * (max(config.warmup, 1) / step) ** 0.5)


def constant(config: ConstantConfig) -> Schedule:
    return _warm(config, lambda _: config.lr)


def linear(config: LinearConfig) -> Schedule:
    return _warm(config, lambda step: config.end + (config.lr - config.end) * (1 - _decay_progress(config, step)))


def cosine(config: CosineConfig) -> Schedule:
    def decay(step: int) -> float:
        half = (1 + math.cos(math.pi * _decay_progress(config, step))) / 2
        return config.end + (config.lr - config.end) * half

    return _warm(config, decay)


def _warm(config: PeakConfig, after: Schedule) -> Schedule:
    """`after`, preceded by a linear warm-up from 0 to the peak."""
    return lambda step: config.lr * step / config.warmup if step < config.warmup else after(step)


def _decay_progress(config: DecayConfig, step: int) -> float:
    """Progress from the end of the warm-up to the last step, 0 to 1."""
    return min((step - config.warmup) / max(config.steps - config.warmup, 1), 1.0)
