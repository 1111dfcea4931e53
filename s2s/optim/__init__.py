"""Optimizers that a configuration can name; the learning rate comes from the schedule, at every step."""

from __future__ import annotations

__all__ = ["AdamConfig", "AdamWConfig", "SGDConfig", "s2s_register"]

from dataclasses import dataclass

from s2s.config.ranges import SHARE, at_least, refuse_outside
from s2s.errors import ConfigError
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry


@dataclass(kw_only=True)
class AdamConfig(Choice):
    """Adam as in section 5.3."""

    beta1: float = 0.9
    """Decay of the mean of the gradients."""
    beta2: float = 0.98
    """Decay of the mean of their squares."""
    eps: float = 1e-9
    """Added to the root of the mean square."""

    def __post_init__(self) -> None:
        refuse_outside("optim", self, beta1=SHARE, beta2=SHARE, eps=at_least(0))


@dataclass(kw_only=True)
class AdamWConfig(AdamConfig):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""

    weight_decay: float = 0.01
    """Decay of matrices per step, times the learning rate; vectors (biases, norms) are left alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_outside("optim", self, weight_decay=at_least(0))


@dataclass(kw_only=True)
class SGDConfig(Choice):
    """Stochastic gradient descent."""

    momentum: float = 0.0
    """Share of the last update that is kept."""
    nesterov: bool = False
    """Look ahead along the momentum."""
    weight_decay: float = 0.0
    """Added to the gradient, times the weight; matrices only."""

    def __post_init__(self) -> None:
        refuse_outside("optim", self, momentum=SHARE, weight_decay=at_least(0))
        if self.nesterov and not self.momentum:
            raise ConfigError("optim.nesterov=true looks ahead along the momentum: give optim.momentum, such as 0.9")


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.optim("adam", AdamConfig, "s2s.optim.build:adam")
    registry.optim("adamw", AdamWConfig, "s2s.optim.build:adamw")
    registry.optim("sgd", SGDConfig, "s2s.optim.build:sgd")
