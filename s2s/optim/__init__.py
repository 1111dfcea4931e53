"""The paper's optimizer; the learning rate comes from the schedule, at every step."""

from __future__ import annotations

__all__ = ["START", "AdamConfig", "fusable", "s2s_register"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.config.ranges import SHARE, at_least, refuse_outside
from s2s.lazy import lazy_names
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from s2s.optim.adam import START, fusable


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


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.optim("adam", AdamConfig, "s2s.optim.adam:adam")


__getattr__ = lazy_names(__name__, "adam")
