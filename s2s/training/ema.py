"""Exponential moving average of weights."""

from __future__ import annotations

__all__ = ["EMA"]

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import nn


class EMA:
    """mean <- decay * mean + (1 - decay) * weights, after every update.

    Early in training the mean follows faster, with decay min(decay, (1 + t) / (10 + t)), so that it forgets the
    initial weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.parameters = dict(model.named_parameters())
        self.mean = {name: p.detach().clone() for name, p in self.parameters.items()}

    @torch.no_grad()
    def update(self, step: int, is_finite: Tensor) -> None:
        """Move towards the model's weights after update `step`, counted from 1, if it is_finite [].

        On a device, this decides there, without a wait of the host.
        """
        weight = 1 - min(self.decay, (1 + step) / (10 + step))
        means, weights = list(self.mean.values()), list[Tensor](self.parameters.values())
        if not is_finite.is_cpu:
            own = (weight * is_finite).float()
            for mean, p in zip(means, weights, strict=True):  # all at once, torch would read the weight, or copy them
                mean.lerp_(p, own.to(mean.dtype))
        elif is_finite:
            torch._foreach_lerp_(means, weights, weight)

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the means from a checkpoint."""
        for name, mean in self.mean.items():
            mean.copy_(tensors[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside the block the model computes with the means; the parameters stay the same objects."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, p in self.parameters.items():
            kept = p.detach().clone()
            p.copy_(self.mean[name])
            self.mean[name].copy_(kept)
