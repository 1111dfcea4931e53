"""Linear maps of training in bf16, for any number of rows.

oneDNN generates code for each new shape: 3 to 14 ms on an Intel Xeon with AMX, longer than most products of an update
take. Nearly every batch has a different number of positions, so most products would wait for their code, and the code
fills memory. Where the processor multiplies values in bf16, functions in C need no code for each shape. Elsewhere whole
blocks of rows are multiplied at once, and the remaining rows are padded to one more block: this leaves 16 distinct
numbers of rows from one power of two to the next.

Shapes: R rows, I inputs, O outputs.
"""

from __future__ import annotations

__all__ = ["accepts_linear", "are_linear_parameters", "is_in_bf16", "linear", "outer_product_sum"]

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from s2s_cpu.bf16_linear import (
    apply_weight,
    input_gradient,
    parameter_gradients,
    uses_bf16_linear,
    weight_gradient,
)
from s2s_cpu.rules import DTYPE_BITS, in_torch_func, is_ordinary

MIN_BLOCK_ROWS = 16
"""Rows of the smallest block"""
MIN_BATCH_ROWS = 256
"""A matrix of this many rows or more is taken for a whole batch, not for a step of a loop, whose shape soon recurs"""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x [..., I] in fp32 or bf16, weight [O, I] and bias [O] in fp32 -> [..., O] in bf16"""
    function = _LinearInC if uses_bf16_linear(weight.size(1)) else _LinearInFewShapes
    out: Tensor = function.apply(x, weight, bias)
    return out


def accepts_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """On a CPU, under autocast to bf16 and with gradients, where a function in C is used or the rows are not a whole
    number of blocks; not in a loop over steps, in which autocast casts the weight once."""
    if not is_in_bf16(x) or x.dim() < 2:
        return False
    n = x.numel() // max(1, x.size(-1))
    is_whole = n >= MIN_BATCH_ROWS or (x.dim() > 2 and min(x.shape[:-1]) > 1)
    return (
        are_linear_parameters(x.size(-1), weight, bias)
        and is_whole
        and n > MIN_BLOCK_ROWS
        and (n % block_size(n) > 0 or uses_bf16_linear(weight.size(1)))
    )


def is_in_bf16(x: Tensor) -> bool:
    """Whether products of x in training are in bf16, as autocast asks for, on a CPU; not in torch.func."""
    if not (x.is_cpu and torch.is_autocast_enabled("cpu") and torch.is_grad_enabled()):
        return False
    return torch.get_autocast_dtype("cpu") == torch.bfloat16 and x.dtype in DTYPE_BITS and not in_torch_func()


def are_linear_parameters(n_inputs: int, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether these are plain parameters in fp32 of a linear map of so many inputs."""
    plain = all(is_ordinary(t) and t.dtype == torch.float32 for t in (weight, bias) if t is not None)
    plain = plain and weight.numel() > 0 and weight.shape[1:] == (n_inputs,)
    return plain and (bias is None or bias.shape == weight.shape[:1])


def block_size(n: int) -> int:
    """Rows of a block for n rows: a sixteenth of the largest power of two up to n, but at least MIN_BLOCK_ROWS."""
    return max(MIN_BLOCK_ROWS, 1 << max(0, n.bit_length() - 5))


def split_blocks(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """[R, ·] -> the whole blocks, and the remaining rows padded with zeros to one block; None if none remain."""
    n = len(x) - len(x) % block_size(len(x))
    return x[:n], F.pad(x[n:], (0, 0, 0, block_size(len(x)) - len(x) + n)) if n < len(x) else None


def blockwise_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [R, I], weight [I, O], bias [O] -> x weight + bias, [R, O]"""
    whole, rest = split_blocks(x)
    out = x.new_empty(len(x), weight.size(1))
    product(whole, weight, bias, out[: len(whole)])
    if rest is not None:
        out[len(whole) :] = product(rest, weight, bias)[: len(x) - len(whole)]
    return out


def product(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
    """The same in one call, for one of the few numbers of rows that `split_blocks` gives."""
    return torch.mm(x, weight, out=out) if bias is None else torch.addmm(bias, x, weight, out=out)


def outer_product_sum(x: Tensor, y: Tensor) -> Tensor:
    """x [R, O], y [R, I], in bf16 -> the sum over rows [O, I], in fp32"""
    if uses_bf16_linear(y.size(1)):
        return weight_gradient(x, y, None)
    (x, rest_of_x), (y, rest_of_y) = split_blocks(x), split_blocks(y)
    total = (x.t() @ y).float()
    if rest_of_x is not None and rest_of_y is not None:
        total += rest_of_x.t() @ rest_of_y
    return total


class _LinearInC(torch.autograd.Function):
    """By functions in C; the gradient of x has the type of x. As in torch's own linear maps without autocast, x and the
    weight themselves are kept for the backward pass, and must not be changed in place before it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x, weight, bias = x.contiguous(), weight.contiguous(), bias if bias is None else bias.contiguous()
        for_x, for_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(weight if for_x else None, x if for_weight else None)
        ctx.dtype = x.dtype
        return apply_weight(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        (weight, x), d_out, needed = ctx.saved_tensors, d_out.contiguous(), ctx.needs_input_grad
        dx = input_gradient(d_out, weight, ctx.dtype) if needed[0] else None
        if not needed[1]:
            return dx, None, d_out.flatten(0, -2).sum(0, dtype=torch.float32) if needed[2] else None
        return dx, *parameter_gradients(d_out, x, has_bias=needed[2])


class _LinearInFewShapes(torch.autograd.Function):
    """By torch, in few shapes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, weight = x.to(torch.bfloat16).flatten(0, -2).contiguous(), weight.to(torch.bfloat16)
        for_x, for_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(weight if for_x else None, rows if for_weight else None)
        out = blockwise_product(rows, weight.t(), bias if bias is None else bias.to(torch.bfloat16))
        return out.unflatten(0, x.shape[:-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        (weight, x), rows, needed = ctx.saved_tensors, d_out.flatten(0, -2).contiguous(), ctx.needs_input_grad
        dx = blockwise_product(rows, weight).unflatten(0, d_out.shape[:-1]) if needed[0] else None
        d_weight = outer_product_sum(rows, x) if needed[1] else None
        return dx, d_weight, rows.sum(0, dtype=torch.float32) if needed[2] else None
