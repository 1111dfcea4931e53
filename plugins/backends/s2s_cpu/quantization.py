"""Quantization to 8 bits: of weights once, of inputs row by row at each call.

Shapes: R rows, I inputs, O outputs of a linear map.
"""

from __future__ import annotations

__all__ = ["ZERO_POINT", "dequantize_rows", "quantize_rows", "quantize_weight"]

import torch
from torch import Tensor

from s2s.backend import Operator

ZERO_POINT = 128
"""The unsigned 8-bit input that stands for 0"""


@Operator
def quantize_rows(x: Tensor, zero_point: int) -> tuple[Tensor, Tensor]:
    """Symmetric quantization of each row to 8 bits around `zero_point`: x [R, I] -> uint8 [R, I], scale [R]

    x is about scale * (quantized - zero_point).
    """
    scale = x.abs().amax(1).clamp(min=1e-12) / 127
    return (x / scale[:, None]).round().add(zero_point).to(torch.uint8), scale


@Operator
def dequantize_rows(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """x [R, O] times scale [R] plus bias [O], in place."""
    return x.mul_(scale[:, None]).add_(bias)


def quantize_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """W [O, I] as int8, and the scale of each of its rows, [O]."""
    scale = weight.abs().amax(1).clamp(min=1e-12) / 127
    return (weight / scale[:, None]).round().to(torch.int8), scale
