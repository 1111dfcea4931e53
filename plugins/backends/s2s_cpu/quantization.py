"""Quantization to 8 bits: of weights once, of inputs row by row at each call.

Shapes: R rows, I inputs, O outputs of a linear map.
"""

from __future__ import annotations

__all__ = ["ZERO_POINT", "QuantizedWeight", "dequantize_rows", "quantize_rows", "quantize_rows_by", "quantize_weight"]

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from s2s.backend import Operator

if TYPE_CHECKING:
    from s2s.backend import linear

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


class QuantizedWeight(NamedTuple):
    """A matrix in 8-bit integers: x W^T is about scale * (products of integers), times the scale of a row of x."""

    integers: Tensor
    """[O, I]"""
    scale: Tensor
    """[O]"""
    multiplier: float
    """What x is multiplied by, all rows alike; 0: each row has a scale of its own"""


def quantize_weight(weight: Tensor, recorded: linear.Int8Multipliers | None = None) -> QuantizedWeight:
    """W [O, I], each row by its largest weight, or by recorded multipliers, whose inputs must be equal."""
    if recorded is None:
        scale = weight.abs().amax(1).clamp(min=1e-12) / 127
        return QuantizedWeight((weight / scale[:, None]).round().to(torch.int8), scale, 0.0)
    integers = (weight * recorded.weights[:, None]).round().clamp(-128, 127).to(torch.int8)
    multiplier = float(recorded.inputs[0])
    return QuantizedWeight(integers, 1 / (recorded.weights * (multiplier or 1)), multiplier)


def quantize_rows_by(x: Tensor, multiplier: float, zero_point: int) -> tuple[Tensor, Tensor]:
    """x [R, I] times a multiplier, rounded to 8 bits around `zero_point`: uint8 [R, I], scales [R] that are 1."""
    rounded = (x * multiplier).clamp(-127, 127).round().nan_to_num().add(zero_point).to(torch.uint8)
    return rounded, 1 + (x * 0).sum(1)  # NaN for a row that has NaN or infinity
