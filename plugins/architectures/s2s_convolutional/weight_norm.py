"""A linear map whose rows have a learned length and a separate direction (Salimans and Kingma, 2016)."""

from __future__ import annotations

__all__ = ["NormedLinear"]

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable


class NormedLinear(nn.Module):
    """w = g v / |v| for each output; torch's own weight norm would prevent prepacking."""

    prepacked: Callable[[Tensor], Tensor] | None = None
    """Computes the product from a prepacked weight, if set"""

    def __init__(self, d_in: int, d_out: int, *, keep: float = 1.0, gated: bool = False) -> None:
        """keep: share of the inputs that dropout keeps; gated: whether a gated unit follows; both for the initial
        weights."""
        super().__init__()
        self.v = nn.Parameter(torch.empty(d_out, d_in))
        self.g = nn.Parameter(torch.empty(d_out))
        self.bias = nn.Parameter(torch.empty(d_out))
        self.std = math.sqrt((4 if gated else 1) * keep / d_in)

    @property
    def d_in(self) -> int:
        return self.v.size(1)

    def weight_and_bias(self) -> tuple[Tensor, Tensor]:
        """[O, I], [O]"""
        return torch._weight_norm(self.v, self.g[:, None], 0), self.bias

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        return self.prepacked(x) if self.prepacked else F.linear(x, *self.weight_and_bias())

    @torch.no_grad()
    def init_weights(self) -> None:
        """Outputs with the variance of the inputs (appendix A of ConvS2S): N(0, p / n), N(0, 4 p / n) before a gate."""
        nn.init.normal_(self.v, std=self.std)
        self.g.copy_(self.v.norm(dim=1))
        nn.init.zeros_(self.bias)
