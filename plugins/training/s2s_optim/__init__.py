"""Optimizers and schedules; the learning rate comes from the schedule, at every step. No torch at import."""

from __future__ import annotations

__all__ = [
    "AdadeltaConfig",
    "AdamConfig",
    "AdamWConfig",
    "ConstantConfig",
    "CosineConfig",
    "InverseSqrtConfig",
    "LinearConfig",
    "NoamConfig",
    "SGDConfig",
    "s2s_register",
]

from dataclasses import dataclass

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import SHARE, above, at_least, check_ranges
from s2s_optim.schedules import (
    ConstantConfig,
    CosineConfig,
    InverseSqrtConfig,
    LinearConfig,
    NoamConfig,
    constant,
    cosine,
    inverse_sqrt,
    linear,
    noam,
)


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
        check_ranges("optim", self, beta1=SHARE, beta2=SHARE, eps=at_least(0))


@dataclass(kw_only=True)
class AdamWConfig(AdamConfig):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""

    weight_decay: float = 0.01
    """Decay of matrices per step, times the learning rate; vectors (biases, norms) do not decay."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("optim", self, weight_decay=at_least(0))


@dataclass(kw_only=True)
class SGDConfig(Choice):
    """Stochastic gradient descent."""

    momentum: float = 0.0
    """Share of the previous update that is kept."""
    nesterov: bool = False
    """Look ahead along the momentum."""
    weight_decay: float = 0.0
    """Added to the gradient, times the weight; matrices only."""

    def __post_init__(self) -> None:
        check_ranges("optim", self, momentum=SHARE, weight_decay=at_least(0))
        if self.nesterov and not self.momentum:
            raise ConfigError("optim.nesterov=true looks ahead along the momentum: give optim.momentum, such as 0.9")


@dataclass(kw_only=True)
class AdadeltaConfig(Choice):
    """Step sizes from past gradients and updates (Zeiler, 2012); a learning rate of 1.0 is the paper's."""

    rho: float = 0.95
    """Decay of both means of squares."""
    eps: float = 1e-6
    """Added to both means."""

    def __post_init__(self) -> None:
        check_ranges("optim", self, rho=SHARE, eps=above(0))


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.optim("adam", AdamConfig, "s2s_optim.build:adam")
    registry.optim("adadelta", AdadeltaConfig, "s2s_optim.build:adadelta")
    registry.optim("adamw", AdamWConfig, "s2s_optim.build:adamw")
    registry.optim("sgd", SGDConfig, "s2s_optim.build:sgd")
    registry.schedule("noam", NoamConfig, noam)
    registry.schedule("inverse_sqrt", InverseSqrtConfig, inverse_sqrt)
    registry.schedule("linear", LinearConfig, linear)
    registry.schedule("cosine", CosineConfig, cosine)
    registry.schedule("constant", ConstantConfig, constant)
