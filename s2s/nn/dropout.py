"""Dropout, with masks that are cheap to draw on a CPU."""

from __future__ import annotations

__all__ = ["Dropout", "dropout"]

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Sets a share p of the values to zero while training, and scales the others up to keep the mean."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """[...] -> [...]"""
        return dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"p={self.p}"


def dropout(x: Tensor, p: float) -> Tensor:
    """Dropout that is always on; p = 0 draws nothing.

    On a CPU torch draws its mask through bernoulli_, which took 28 % of a bf16 training step (4 + 4 layers,
    width 128); comparing uniform numbers draws a mask of the same kind in a third of the time.
    """
    if p == 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    return x * torch.rand(x.shape).ge_(p).mul_(1 / (1 - p))
