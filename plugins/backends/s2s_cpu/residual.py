"""Dropout, residual sums with dropout, and their layer normalisation: one pass over memory each way.

Random numbers are drawn as in the reference, so that masks are the same, and are kept for the backward pass instead of
a mask in floats. A row's result has the same bits whatever the other rows are, so rows are divided among torch's
threads. Double backward is refused; S2S_KERNELS=torch supports it. Shapes: R rows, D width.
"""

from __future__ import annotations

__all__ = [
    "accepts_dropout",
    "accepts_sum",
    "accepts_sum_and_norm",
    "add_dropout",
    "add_dropout_norm",
    "apply_dropout",
    "random_int64",
]

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from s2s.backend import operators
from s2s_cpu.library import call
from s2s_cpu.rules import DTYPE_BITS, WIDTH_MULTIPLE, in_torch_func
from s2s_cpu.threads import compute_in_threads, compute_rows, n_shares


def random_int64(seed: int, n: int) -> Tensor:
    """[n], as in the reference"""
    numbers = torch.empty(n, dtype=torch.int64)
    call("s2s_random_numbers", seed, n, numbers)
    return numbers


def apply_dropout(x: Tensor, p: float) -> Tensor:
    """[...] -> [...] in fp32, as in the reference"""
    return _AddDropout.apply(None, x, p)


def add_dropout(x: Tensor, y: Tensor, p: float) -> Tensor:
    """x + dropout(y): [..., D]"""
    return _AddDropout.apply(x, y, p)


def add_dropout_norm(x: Tensor, y: Tensor, p: float, norm: nn.LayerNorm) -> Tensor:
    """norm(x + dropout(y)): [..., D]"""
    return _AddDropoutNorm.apply(x, y, p, norm.weight, norm.bias, norm.eps)


def accepts_dropout(x: Tensor, p: float) -> bool:
    """A positive p, and fp32 or bf16 on a CPU; not in torch.func."""
    return p > 0 and x.is_cpu and x.dtype in DTYPE_BITS and not in_torch_func()


def accepts_sum(x: Tensor, y: Tensor, p: float) -> bool:
    """The residual stream x in fp32, y in fp32 or bf16."""
    return accepts_dropout(y, p) and x.is_cpu and x.dtype == torch.float32 and x.shape == y.shape


def accepts_sum_and_norm(x: Tensor, y: Tensor, p: float, norm: nn.LayerNorm) -> bool:
    """The same, before a norm with weight and bias in fp32; without dropout, only where gradients are enabled."""
    if not (p > 0 or torch.is_grad_enabled()) or norm.weight is None or norm.bias is None or in_torch_func():
        return False
    if any(t.dtype != torch.float32 or not t.is_cpu for t in (x, norm.weight, norm.bias)):
        return False
    rows = norm.normalized_shape == x.shape[-1:] and x.size(-1) % WIDTH_MULTIPLE == 0
    return rows and y.dtype in DTYPE_BITS and y.is_cpu and x.shape == y.shape


class _AddDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor | None, y: Tensor, p: float) -> Tensor:
        numbers, *rest = operators.draw_mask(y.shape, p)
        ctx.save_for_backward(numbers)
        ctx.rest, ctx.dtype = rest, y.dtype
        return _dropped(x, y, numbers, rest, torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        (numbers,) = ctx.saved_tensors
        dy = _dropped(None, d_out, numbers, ctx.rest, ctx.dtype)
        return d_out if ctx.needs_input_grad[0] else None, dy, None


def _dropped(x: Tensor | None, y: Tensor, numbers: Tensor, rest: list[Any], dtype: torch.dtype) -> Tensor:
    """x + dropout(y), [...]; rest: the smallest number that keeps a value, and the factor"""
    out = y.new_empty(y.shape, dtype=dtype)
    flat = [t if t is None else t.contiguous().view(-1) for t in (x, y, numbers, out)]

    def compute(x: Tensor | None, y: Tensor, numbers: Tensor, out: Tensor) -> None:
        bits = DTYPE_BITS[y.dtype], DTYPE_BITS[dtype]
        call("s2s_dropout", x, y, bits[0], len(y), numbers, *rest, out, bits[1])

    compute_in_threads(compute, flat, n_shares(y.numel()))
    return out


class _AddDropoutNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, p: float, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        numbers, *rest = operators.draw_mask(y.shape, p) if p else (None, 0, 1.0)
        total, out = x.new_empty(x.shape), x.new_empty(x.shape)
        width, n_rows = x.size(-1), x.numel() // x.size(-1)
        statistics = x.new_empty(n_rows, 2)

        def compute(x: Tensor, y: Tensor, numbers: Tensor | None, *results: Tensor) -> None:
            rows = DTYPE_BITS[y.dtype], x.numel() // width, width
            call("s2s_dropout_norm", x, y, *rows, numbers, *rest, weight, bias, eps, *results)

        tensors = x.contiguous(), y.contiguous(), numbers, total, statistics, out
        compute_rows(compute, tensors, n_shares(n_rows, width))
        ctx.save_for_backward(total, statistics, numbers, weight)
        ctx.rest, ctx.dtype = rest, y.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        total, statistics, numbers, weight = ctx.saved_tensors
        width = weight.size(0)
        n = n_shares(statistics.size(0), width)
        dx, dy = torch.empty_like(total), torch.empty_like(total, dtype=ctx.dtype)
        d_weight, d_bias = weight.new_empty(n, width), weight.new_empty(n, width)

        def compute(d_out: Tensor, total: Tensor, statistics: Tensor, numbers: Tensor | None, *results: Tensor) -> None:
            rows = DTYPE_BITS[ctx.dtype], d_out.numel() // width, width
            call("s2s_dropout_norm_backward", d_out, *rows, numbers, *ctx.rest, weight, total, statistics, *results)

        compute_rows(compute, (d_out.contiguous(), total, statistics, numbers, dx, dy, d_weight, d_bias), n)
        return dx, dy, None, *(t.sum(0) if n > 1 else t[0] for t in (d_weight, d_bias)), None
