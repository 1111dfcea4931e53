"""Adam of torch, and what other optimizers of torch are given alike."""

from __future__ import annotations

__all__ = ["START", "adam", "fusable"]

from typing import TYPE_CHECKING

from torch import nn, optim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.optim import AdamConfig

START = 0.0
"""Learning rate before the schedule has set one: an update without a schedule must change nothing."""


def adam(config: AdamConfig, parameters: Sequence[nn.Parameter]) -> optim.Optimizer:
    return optim.Adam(parameters, START, betas=(config.beta1, config.beta2), eps=config.eps, fused=fusable(parameters))


def fusable(parameters: Sequence[nn.Parameter]) -> bool:
    """One kernel for all parameters: torch has it for floating-point tensors on the CPU and on CUDA."""
    return all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
