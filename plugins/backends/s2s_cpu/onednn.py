"""Linear maps of oneDNN, which comes with torch, with prepacked weights. Shapes: I inputs, O outputs."""

from __future__ import annotations

__all__ = ["OneDNNInt8Linear", "OneDNNLinear", "int8_is_exact"]

import functools
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s_cpu.quantization import ZERO_POINT, dequantize_rows, quantize_rows, quantize_rows_by, quantize_weight

if TYPE_CHECKING:
    from s2s.backend import linear


class OneDNNLinear:
    """x W^T + b in fp32, with W in oneDNN's own layout."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous())
        self.bias = None if bias is None else bias.detach()

    def __call__(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        return torch.ops.mkldnn._linear_pointwise.default(x, self.weight, self.bias, "none", [], "")


class OneDNNInt8Linear:
    """x W^T + b in 8-bit integers: one scale for each output of W and one for each row of x, or those of a file.

    One scale for all rows of x, as in torch's own dynamic quantization, would make an output depend on its batch. Rows
    are unsigned: for signed ones oneDNN uses a kernel that took a thousand times as long.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, recorded: linear.Int8Multipliers | None = None) -> None:
        quantized, self.scale, self.multiplier = quantize_weight(weight.detach(), recorded)
        self.weight = torch.ops.onednn.qlinear_prepack(quantized, None)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.bias = torch.zeros(len(weight), dtype=torch.float32) if bias is None else bias.detach()

    def __call__(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        x_rows = x.flatten(0, -2)
        by_one = self.multiplier != 0
        rows, scale = (
            quantize_rows_by(x_rows, self.multiplier, ZERO_POINT) if by_one else quantize_rows(x_rows, ZERO_POINT)
        )
        product = torch.ops.onednn.qlinear_pointwise(
            rows, 1.0, ZERO_POINT, self.weight, self.scale, self.zeros, None, 1.0, 0, torch.float, "none", [], ""
        )
        return dequantize_rows(product, scale, self.bias).unflatten(0, x.shape[:-1])


@functools.cache
def int8_is_exact() -> bool:
    """Whether oneDNN's sums of 8-bit products are exact: on processors without VNNI, pairs are added in 16 bits."""
    x, weight = torch.full((1, 64), 3.0), torch.full((16, 64), 2.0)
    return bool((OneDNNInt8Linear(weight, None)(x) - x @ weight.T).abs().max() < 1)
