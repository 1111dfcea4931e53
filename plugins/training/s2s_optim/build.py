"""Builds torch's optimizer from an optimizer's config and the parameters."""

from __future__ import annotations

__all__ = ["adadelta", "adam", "adamw", "sgd"]

from typing import TYPE_CHECKING, Any

from torch import nn, optim
from torch.distributed.tensor import DTensor

from s2s.backend import device_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s_optim import AdadeltaConfig, AdamConfig, AdamWConfig, SGDConfig


START = 0.0
"""Learning rate before the schedule has set one: an update without a schedule must change nothing."""


def adam(config: AdamConfig, parameters: Sequence[nn.Parameter]) -> optim.Optimizer:
    return optim.Adam(parameters, START, betas=(config.beta1, config.beta2), eps=config.eps, fused=_fusable(parameters))


def adadelta(config: AdadeltaConfig, parameters: Sequence[nn.Parameter]) -> optim.Optimizer:
    return optim.Adadelta(parameters, START, rho=config.rho, eps=config.eps)


def adamw(config: AdamWConfig, parameters: Sequence[nn.Parameter]) -> optim.Optimizer:
    return optim.AdamW(
        _decayed(parameters, config.weight_decay),
        START,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=_fusable(parameters),
    )


def sgd(config: SGDConfig, parameters: Sequence[nn.Parameter]) -> optim.Optimizer:
    return optim.SGD(
        _decayed(parameters, config.weight_decay),
        START,
        momentum=config.momentum,
        nesterov=config.nesterov,
        fused=_fusable(parameters) and not any(isinstance(p, DTensor) for p in parameters),  # torch has no such kernel
    )


def _fusable(parameters: Sequence[nn.Parameter]) -> bool:
    """Whether torch has one fused kernel for all parameters."""
    return all(p.is_floating_point() and device_of(p.device).has_fused_optimizers for p in parameters)


def _decayed(parameters: Sequence[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Two groups: matrices, which decay, and vectors, which do not; an empty group is left out."""
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
