"""Operations on rows of floats: residual sum with layer normalisation, and 8-bit quantization.

Shapes: R rows, I inputs, O outputs of a linear map, D width.
"""

from __future__ import annotations

__all__ = ["add_norm", "dequantize_rows", "quantize_rows"]

import torch
from torch import Tensor, nn

from s2s.backend.kernels.library import call
from s2s.backend.kernels.operator import Operator


def _add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """norm(x + y): [..., D]"""
    result: Tensor = norm(x + y)
    return result


def _native_add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """The same, in one pass over rows that fit into the cache."""
    x, y = x.contiguous(), y.contiguous()
    out, width = torch.empty_like(x), x.size(-1)
    call("s2s_add_norm", x, y, x.numel() // width, width, norm.weight, norm.bias, norm.eps, out)
    return out


def _quantize_rows(x: Tensor, zero_point: int) -> tuple[Tensor, Tensor]:
    """Symmetric quantization of each row to 8 bits around `zero_point`: x [R, I] -> uint8 [R, I], scale [R]

    x is about scale * (quantized - zero_point).
    """
    scale = x.abs().amax(1).clamp(min=1e-12) / 127
    return (x / scale[:, None]).round().add(zero_point).to(torch.uint8), scale


def _native_quantize_rows(x: Tensor, zero_point: int) -> tuple[Tensor, Tensor]:
    x = x.contiguous()
    rows, scale = torch.empty_like(x, dtype=torch.uint8), x.new_empty(len(x))
    call("s2s_quantize_rows", x, *x.shape, x.size(1), zero_point, rows, scale)
    return rows, scale


def _dequantize_rows(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """x [R, O] times scale [R] plus bias [O], in place."""
    return x.mul_(scale[:, None]).add_(bias)


def _native_dequantize_rows(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    call("s2s_dequantize_rows", x, *x.shape, scale, bias)
    return x


def _without_gradient(*_: object) -> bool:
    return not torch.is_grad_enabled()


def _contiguous(x: Tensor, *_: object) -> bool:
    return x.is_contiguous()


add_norm = Operator("add_norm", reference=_add_norm, native=_native_add_norm, fp32=[0, 1], accepts=_without_gradient)
quantize_rows = Operator("quantize_rows", reference=_quantize_rows, native=_native_quantize_rows, fp32=[0])
dequantize_rows = Operator(
    "dequantize_rows",
    reference=_dequantize_rows,
    native=_native_dequantize_rows,
    fp32=[0, 1, 2],
    accepts=_contiguous,
)
