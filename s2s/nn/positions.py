"""The position encoding of section 3.5.

Positions are given as a tensor of integers, so that sentences may lie in memory in any way.
Shapes: T positions, D = d_model.
"""

from __future__ import annotations

__all__ = ["Sinusoids"]

import math
from typing import Literal

import torch
from torch import Tensor, nn

LONGEST_WAVE = 10_000.0


class Sinusoids(nn.Module):
    """Sines and cosines of wavelengths from 2 pi to 10000 * 2 pi; any length, no weights.

    They are computed when needed, so there is nothing to move between devices or to lose on the meta device. On a
    CPU those of the first positions are kept: they took a tenth of the time of decoding one sentence with a tiny model.
    """

    def __init__(self, d_model: int, layout: Literal["paper", "t2t"]) -> None:
        super().__init__()
        self.d_model, self.layout = d_model, layout
        self.cache: Tensor | None = None

    def forward(self, position: Tensor, dtype: torch.dtype) -> Tensor:
        """[...] -> [..., D], computed in float64: in float32 the sine of a large position loses digits."""
        n_waves = self.d_model // 2
        wave = torch.arange(n_waves, dtype=torch.float64, device=position.device)
        # The released code spreads its wavelengths over n - 1 steps and so reaches 10000 itself.
        n_steps = n_waves if self.layout == "paper" else max(n_waves - 1, 1)
        angle = position[..., None] * torch.exp(wave * (-math.log(LONGEST_WAVE) / n_steps))  # [..., D / 2]
        if self.layout == "t2t":
            return torch.cat([angle.sin(), angle.cos()], dim=-1).to(dtype)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).to(dtype)

    def first(self, n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """[n, D], of positions 0 to n - 1"""
        if device.type != "cpu" or torch.compiler.is_compiling():
            return self(torch.arange(n, device=device), dtype)
        kept = self.cache  # another thread may put a shorter one there
        if kept is None or kept.dtype is not dtype or len(kept) < n:
            self.cache = kept = self(torch.arange(max(64, 2 * n)), dtype)
        return kept[:n]

    def check(self, length: int) -> None:
        """Any length is accepted."""
