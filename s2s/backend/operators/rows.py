"""A residual sum with layer normalisation, as decoding computes it. Shapes: D width."""

from __future__ import annotations

__all__ = ["add_norm"]

from typing import TYPE_CHECKING

from s2s.backend.operators.operator import Operator

if TYPE_CHECKING:
    from torch import Tensor, nn


@Operator
def add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """norm(x + y): [..., D]"""
    result: Tensor = norm(x + y)
    return result
