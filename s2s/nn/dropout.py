"""Dropout, with masks that are cheap to draw on a CPU."""

from __future__ import annotations

__all__ = ["Dropout", "DropoutMask", "WordDropout", "apply_dropout", "draw_mask"]

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = 1 << 16
"""Numbers that a draw of 16 bits can be"""


class DropoutMask(NamedTuple):
    """Which values are kept: those whose word is at least `least`, and these are multiplied by `factor`."""

    words: Tensor
    """16-bit integers"""
    least: int
    factor: float


class Dropout(nn.Module):
    """Sets a share p of the values to zero while training, and scales the others up to keep the mean."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """[...] -> [...]"""
        return apply_dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"p={self.p}"


class WordDropout(Dropout):
    """Sets the embeddings of a share p of the tokens to zero (Gal and Ghahramani, 2016; Sennrich and Zhang, 2019)."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]; the rest is scaled up to keep the mean."""
        if not self.training or self.p == 0:
            return x
        return x * apply_dropout(x.new_ones((*x.shape[:-1], 1)), self.p)


def apply_dropout(x: Tensor, p: float) -> Tensor:
    """Dropout that is always on; p = 0 draws nothing. On a CPU p is a multiple of 1 / 65,536.

    There torch draws its mask through bernoulli_, which took 28 % of a bf16 training step (4 + 4 layers, width 128).
    Four values share a random number of 64 bits, which takes two thirds of the time of comparing uniform floats.
    """
    if p == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    words, least, factor = draw_mask(x.shape, p)
    return x * words.ge(least).float().mul_(factor)  # in 16 bits the factor would be off by 0.2 %


def draw_mask(shape: torch.Size, p: float) -> DropoutMask:
    """What `apply_dropout` draws on a CPU."""
    threshold = min(round(p * LEVELS), LEVELS - 1)
    return DropoutMask(draws(shape), threshold - LEVELS // 2, LEVELS / (LEVELS - threshold))


def draws(shape: torch.Size) -> Tensor:
    """Independent integers of 16 bits, from -32,768 on, all equally likely."""
    n = shape.numel()
    words = torch.empty((n + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    return words.view(torch.int16)[:n].view(shape)
