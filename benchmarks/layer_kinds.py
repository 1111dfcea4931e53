"""The layers that Table 1 compares, each reduced to little more than the operation that it is named after.

Shapes: n positions of width d; k positions in a convolution's window, r in the neighbourhood of a query.
"""

from __future__ import annotations

__all__ = ["KINDS", "Kind", "Layer"]

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

K, R = 3, 32
"""Window of the convolution and neighbourhood of restricted attention where neither is varied"""


class Layer(nn.Module):
    """x [n, d] -> [n, d]"""

    def __init__(self, d: int, window: int) -> None:
        super().__init__()
        self.d, self.window = d, window

    def positions(self, x: Tensor) -> list[Tensor]:
        """The outputs per position, computed without any node that spans all positions."""
        return list(self(x).unbind(0))


class SelfAttention(Layer):
    """softmax(x x' / sqrt(d)) x: what Table 1 counts, without the projections."""

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.T / math.sqrt(self.d)).softmax(-1) @ x


class ProjectedSelfAttention(Layer):
    """Self-attention with the projections of queries, keys, values and output."""

    def __init__(self, d: int, window: int) -> None:
        super().__init__(d, window)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out((q @ k.T / math.sqrt(self.d)).softmax(-1) @ v)


class RestrictedSelfAttention(Layer):
    """Every query attends to the r positions around it; padding beyond the ends is masked out."""

    def forward(self, x: Tensor) -> Tensor:
        r, n = self.window, len(x)
        left = (r - 1) // 2
        near = F.pad(x, (0, 0, left, r - 1 - left)).unfold(0, r, 1)  # [n, d, r], a view
        scores = torch.bmm(x[:, None], near)[:, 0] / math.sqrt(self.d)  # [n, r]
        place = torch.arange(n)[:, None] + torch.arange(r) - left
        weights = scores.masked_fill((place < 0) | (place >= n), -math.inf).softmax(-1)
        return torch.bmm(near, weights[..., None])[..., 0]


class Recurrent(Layer):
    """h' = tanh(U x' + V h) (Elman, 1990)."""

    def __init__(self, d: int, window: int) -> None:
        super().__init__(d, window)
        self.input, self.state = nn.Linear(d, d), nn.Linear(d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack(self.positions(x))

    def positions(self, x: Tensor) -> list[Tensor]:
        h, found = x.new_zeros(1, self.d), []
        for fed in self.input(x).split(1):
            h = torch.tanh(fed + self.state(h))
            found.append(h)
        return found


class Convolutional(Layer):
    """A window of k positions, one more ahead than behind where k is even."""

    dilation = 1

    def __init__(self, d: int, window: int) -> None:
        super().__init__(d, window)
        self.weight = nn.Parameter(torch.randn(d, d, window) / math.sqrt(d * window))

    def forward(self, x: Tensor) -> Tensor:
        reach = (self.window - 1) * self.dilation
        padded = F.pad(x.T, (reach // 2, reach - reach // 2))[None]  # [1, d, n + reach]
        return F.conv1d(padded, self.weight, dilation=self.dilation)[0].T


@dataclass(frozen=True)
class Kind:
    """A line of Table 1."""

    name: str
    layer: Callable[[int, int], Layer]
    window: int
    """k or r where it is not varied; 0 for layers that have neither"""
    cost: str
    """As the paper states it, like the next two"""
    sequential: str
    path: str


KINDS = (
    Kind("self-attention", SelfAttention, 0, "n² d", "1", "1"),
    Kind("recurrent", Recurrent, 0, "n d²", "n", "n"),
    Kind("convolutional", Convolutional, K, "k n d²", "1", "n / k"),
    Kind("self-attention, restricted", RestrictedSelfAttention, R, "r n d", "1", "n / r"),
    Kind("self-attention with projections", ProjectedSelfAttention, 0, "n² d + n d²", "1", "1"),
)
"""The layers of the table, then self-attention with the projections that a Transformer's layer adds"""
