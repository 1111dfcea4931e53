"""Layers that are skipped at random in training."""

from __future__ import annotations

__all__ = ["LayerDrop"]

import torch
from torch import Tensor, nn


class LayerDrop(nn.Module):
    """Skips a share p of the layers, chosen at random each time (Fan et al., 2020).

    A skipped layer is still computed, so that its parameters get a gradient of zeros, as processes that share the work
    expect, and the shapes and kernels of an update never change.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, output: Tensor, x: Tensor) -> Tensor:
        """A layer's output and input, [..., D] -> one of them"""
        if not self.training or self.p == 0:
            return output
        return torch.where(torch.rand((), device=x.device) < self.p, x, output)

    def extra_repr(self) -> str:
        return f"p={self.p}"
