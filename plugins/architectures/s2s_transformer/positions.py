"""The position encodings that `arch.positions` names.

Shapes: D = d_model.
"""

from __future__ import annotations

__all__ = ["LearnedPositions", "Positions", "positions"]

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s import DataError
from s2s.nn import Sinusoids

if TYPE_CHECKING:
    from s2s_transformer import TransformerConfig


class LearnedPositions(nn.Module):
    """A vector for each position up to a maximum (row E of Table 3), times sqrt(D) if embeddings are."""

    def __init__(self, n_positions: int, d_model: int, *, scaled: bool, offset: int = 0) -> None:
        """offset: the position of a sentence's first token; rows before it are not used"""
        super().__init__()
        self.offset = offset
        self.weight = nn.Parameter(torch.empty(offset + n_positions, d_model))
        self.scale = math.sqrt(d_model) if scaled else 1.0

    def forward(self, position: Tensor, dtype: torch.dtype) -> Tensor:
        """[...] -> [..., D]"""
        return (F.embedding(position, self.weight) * self.scale).to(dtype)

    def first(self, n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """[n, D], of a sentence's first n tokens"""
        return self(torch.arange(self.offset, self.offset + n, device=device), dtype)

    def check(self, length: int) -> None:
        """Raises DataError if a sentence of `length` tokens does not fit."""
        n_positions = self.weight.size(0) - self.offset
        if length > n_positions:
            raise DataError(
                f"a sentence has {length} tokens, but this model has {n_positions} positions "
                f"(arch.max_positions); split it, or train with arch.max_positions={length} or more, or with "
                "arch.positions=sinusoid, which has no limit"
            )


Positions = Sinusoids | LearnedPositions


def positions(config: TransformerConfig) -> Positions | None:
    """The encoding that `arch.positions` names; encoder and decoder each have their own."""
    if config.positions in ("none", "rotary", "relative", "relative_bias"):
        return None
    offset = config.position_offset
    if config.positions == "learned":
        scaled = config.scale_embeddings and config.scale_positions
        return LearnedPositions(config.max_positions, config.d_model, scaled=scaled, offset=offset)
    return Sinusoids(config.d_model, "t2t" if config.positions == "sinusoid_t2t" else "paper", offset=offset)
