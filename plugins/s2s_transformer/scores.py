"""Scores other than the paper's: without its scale, or of rotated queries and keys.

A layout divides every score by sqrt(d_k), so these change queries and keys before it, whatever layout and kernel are.
Shapes: h heads, T positions, K hypotheses, d width of a query.
"""

from __future__ import annotations

__all__ = ["Scored", "ScoredCrossAttention", "ScoredSelfAttention"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.nn import CachedAttention, CrossAttention, Layout, SelfAttention, VarlenLayout

if TYPE_CHECKING:
    from s2s.nn import KeysValues

LONGEST_WAVE = 10_000.0


@dataclass
class Scored:
    """A layout that is given other queries and keys."""

    layout: Layout
    unscaled: bool
    """Scores are q k."""
    rotary: bool
    """Queries and keys are rotated by angles that grow with the position (Su et al., 2021)."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q, k [..., h, T, d], v [..., h, T, d_v] -> [..., h, T, d_v]"""
        if self.rotary:
            position = positions(self.layout, q)
            q, k = rotate(q, position), rotate(k, position)
        if self.unscaled:
            q = q * q.size(-1) ** 0.5
        return self.layout.attend(q, k, v, dropout)


class ScoredSelfAttention(SelfAttention):
    """Self-attention with such scores."""

    unscaled = rotary = False

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """[..., T, D] -> [..., T, D]"""
        return super().forward(x, Scored(layout, self.unscaled, self.rotary))


class ScoredCrossAttention(CrossAttention):
    """Attention to the source with scores q k."""

    def forward(self, x: Tensor, memory: KeysValues, layout: Layout) -> Tensor:
        """[..., T, D] -> [..., T, D]"""
        return super().forward(x, memory, Scored(layout, unscaled=True, rotary=False))


def positions(layout: Layout, q: Tensor) -> Tensor:
    """Of each query, in the shape of q [..., h, T, d] without its last dimension, or one that broadcasts to it."""
    if isinstance(layout, CachedAttention):
        return layout.paths.length[:, None, None] - 1  # of the newest token, [B, 1, 1]
    if isinstance(layout, VarlenLayout):
        return layout.queries.positions  # [N]
    return torch.arange(q.size(-2), device=q.device)


def rotate(x: Tensor, position: Tensor) -> Tensor:
    """x [..., d] -> [..., d]: values 2i and 2i + 1 as a point of the plane, turned by position * 10000^(-2i / d)."""
    wave = torch.arange(0, x.size(-1), 2, dtype=torch.float64, device=x.device) / x.size(-1)
    angle = position[..., None] * LONGEST_WAVE**-wave  # [..., d / 2]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
