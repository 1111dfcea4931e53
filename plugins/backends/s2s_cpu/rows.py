"""Operations on rows of floats, each in one pass. Shapes: R rows, I inputs, O outputs of a linear map, D width."""

from __future__ import annotations

__all__ = ["accepts_add_norm", "add_norm", "dequantize_rows", "norm_struct", "quantize_rows"]

import ctypes

import torch
from torch import Tensor, nn

from s2s_cpu.library import call
from s2s_cpu.structs import NormStruct


def add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """norm(x + y): [..., D], over rows that fit into the cache."""
    x, y = x.contiguous(), y.contiguous()
    out, width = torch.empty_like(x), x.size(-1)
    call("s2s_add_norm", x, y, x.numel() // width, width, ctypes.byref(norm_struct(norm)), out)
    return out


def accepts_add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> bool:
    """Rows of one shape and a norm of their width with weight and bias, all in fp32 on a CPU, without gradients."""
    if torch.is_grad_enabled() or norm.weight is None or norm.bias is None or x.shape != y.shape:
        return False
    fp32 = all(t.dtype == torch.float32 and t.is_cpu for t in (x, y, norm.weight, norm.bias))
    return fp32 and norm.normalized_shape == x.shape[-1:]


def norm_struct(norm: nn.LayerNorm | nn.RMSNorm | None) -> NormStruct:
    """Of a norm with a weight, and a bias if it is no RMS norm, whose memory it points to; of none, null."""
    if norm is None:
        return NormStruct()
    bias = None if isinstance(norm, nn.RMSNorm) else norm.bias.data_ptr()
    return NormStruct(norm.weight.data_ptr(), bias, norm.eps)


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
