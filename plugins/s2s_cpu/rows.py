"""Operations on rows of floats, each in one pass."""

from __future__ import annotations

__all__ = ["add_norm", "dequantize_rows", "quantize_rows"]

import torch
from torch import Tensor, nn

from s2s_cpu.library import call


def add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """The same, in one pass over rows that fit into the cache."""
    x, y = x.contiguous(), y.contiguous()
    out, width = torch.empty_like(x), x.size(-1)
    call("s2s_add_norm", x, y, x.numel() // width, width, norm.weight, norm.bias, norm.eps, out)
    return out


def quantize_rows(x: Tensor, zero_point: int) -> tuple[Tensor, Tensor]:
    x = x.contiguous()
    rows, scale = torch.empty_like(x, dtype=torch.uint8), x.new_empty(len(x))
    call("s2s_quantize_rows", x, *x.shape, x.size(1), zero_point, rows, scale)
    return rows, scale


def dequantize_rows(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    call("s2s_dequantize_rows", x, *x.shape, scale, bias)
    return x
