"""Operations on rows of floats, each in one pass. Shapes: R rows, I inputs, O outputs of a linear map, D width."""

from __future__ import annotations

__all__ = ["add_norm", "dequantize_rows", "quantize_rows"]

import torch
from torch import Tensor, nn

from s2s_cpu.library import call


def add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """norm(x + y): [..., D], over rows that fit into the cache."""
    x, y = x.contiguous(), y.contiguous()
    out, width = torch.empty_like(x), x.size(-1)
    call("s2s_add_norm", x, y, x.numel() // width, width, norm.weight, norm.bias, norm.eps, out)
    return out


def quantize_rows(x: Tensor, zero_point: int) -> tuple[Tensor, Tensor]:
    """x [R, I] -> uint8 [R, I], scale [R]; see `s2s_cpu.quantization`."""
    x = x.contiguous()
    rows, scale = torch.empty_like(x, dtype=torch.uint8), x.new_empty(len(x))
    call("s2s_quantize_rows", x, *x.shape, x.size(1), zero_point, rows, scale)
    return rows, scale


def dequantize_rows(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """x [R, O], scale [R], bias [O] -> [R, O], in place."""
    call("s2s_dequantize_rows", x, *x.shape, scale, bias)
    return x
