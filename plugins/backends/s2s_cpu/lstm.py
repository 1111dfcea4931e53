"""All steps of an LSTM layer in one call, and their gradient in another; sentences are divided among torch's threads.

The gates are kept for the backward pass. Double backward is refused; S2S_KERNELS=torch supports it.
Shapes: T steps, B sentences, H width.
"""

from __future__ import annotations

__all__ = ["accepts_lstm", "lstm"]

import ctypes
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from s2s_cpu.library import call
from s2s_cpu.prepacked import Bf16Linear, Fp32Linear, PrepackedLinear
from s2s_cpu.rules import DTYPE_BITS, WIDTH_MULTIPLE, in_torch_func, is_ordinary
from s2s_cpu.threads import PRODUCTS_PER_VALUE, compute_in_threads, n_shares
from s2s_cpu.training_linear import outer_product_sum

if TYPE_CHECKING:
    from collections.abc import Iterator


def lstm(parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """parts [T, B, 4 H], weight [4 H, H], h, c [B, H] -> [T, B, H], [T, B, H]"""
    results: tuple[Tensor, Tensor] = _LSTM.apply(parts, weight, h, c)
    return results


def accepts_lstm(parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> bool:
    """fp32 on a CPU, parts in fp32 or bf16, and a width that is a multiple of WIDTH_MULTIPLE; not in torch.func."""
    if not all(x.is_cpu and x.dtype == torch.float32 for x in (weight, h, c)) or not parts.numel():
        return False
    width = c.size(-1)
    if parts.shape[1:] != (len(c), 4 * width) or h.shape != c.shape or width % WIDTH_MULTIPLE:
        return False
    if weight.shape != (4 * width, width) or not parts.is_cpu:
        return False
    return parts.dtype in DTYPE_BITS and is_ordinary(weight) and not in_torch_func()


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        parts, h, c, dtype = parts.contiguous(), h.contiguous(), c.contiguous(), parts.dtype
        outputs, cells = (c.new_empty(len(parts), *c.shape) for _ in range(2))
        gates = c.new_empty(parts.shape) if any(ctx.needs_input_grad) else None
        linear = prepack_weight(weight, dtype)

        def steps(parts: Tensor, h: Tensor, c: Tensor, *results: Tensor | None) -> None:
            sizes = DTYPE_BITS[dtype], parts.size(1), len(c), outputs.size(1), c.size(1)
            call("s2s_lstm", ctypes.byref(linear.struct), parts, *sizes, h, c, *results)

        compute_in_threads(steps, (*by_sentence(parts), h, c, *by_sentence(gates, cells, outputs)), _shares(parts))
        ctx.save_for_backward(weight, h, c, outputs, cells, gates)
        ctx.dtype = dtype
        ctx.set_materialize_grads(False)
        return outputs, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor | None, d_cells: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, h, c, outputs, cells, gates = ctx.saved_tensors
        d_outputs, d_cells = (x if x is None else x.contiguous() for x in (d_outputs, d_cells))
        d_parts, d_h, d_c = torch.empty_like(gates, dtype=ctx.dtype), torch.zeros_like(c), torch.zeros_like(c)
        linear = prepack_weight(weight.t(), ctx.dtype)

        def steps(
            d_outputs: Tensor | None, d_cells: Tensor | None, gates: Tensor, c: Tensor, cells: Tensor, *results: Tensor
        ) -> None:
            sizes = DTYPE_BITS[ctx.dtype], gates.size(1), len(c), outputs.size(1), c.size(1)
            inputs = d_outputs, d_cells, *sizes, gates, c, cells
            call("s2s_lstm_backward", ctypes.byref(linear.struct), *inputs, *results)

        given = *by_sentence(d_outputs, d_cells, gates), c, *by_sentence(cells), d_h, d_c, *by_sentence(d_parts)
        compute_in_threads(steps, given, _shares(gates))
        d_weight = None
        if ctx.needs_input_grad[1]:
            rows, inputs = d_parts.flatten(0, 1), torch.cat([h[None], outputs[:-1]]).flatten(0, 1).to(ctx.dtype)
            d_weight = rows.t() @ inputs if ctx.dtype == torch.float32 else outer_product_sum(rows, inputs)
        return d_parts, d_weight, d_h, d_c


def prepack_weight(weight: Tensor, dtype: torch.dtype) -> PrepackedLinear:
    """weight [O, I] in fp32, for products in `dtype`"""
    return (Fp32Linear if dtype == torch.float32 else Bf16Linear)(weight, None)


def by_sentence(*tensors: Tensor | None) -> Iterator[Tensor | None]:
    """[T, B, ...] -> [B, T, ...], whose shares are those of the sentences; None stays"""
    return (x if x is None else x.transpose(0, 1) for x in tensors)


def _shares(parts: Tensor) -> int:
    """For parts [T, B, 4 H]."""
    n_steps, n_sentences, n_outputs = parts.shape
    return n_shares(n_sentences, n_steps * n_outputs**2 // 4 // PRODUCTS_PER_VALUE)
