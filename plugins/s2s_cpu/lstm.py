"""All steps of an LSTM layer, with their gradient: products by torch, the rest of a step in one call.

The gates are kept for the backward pass. Double backward is refused; S2S_KERNELS=torch supports it.
Shapes: T steps, B sentences, H width.
"""

from __future__ import annotations

__all__ = ["accepts_lstm", "lstm"]

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from s2s_cpu.library import call
from s2s_cpu.rules import MULTIPLE, TYPES, in_torch_func, is_ordinary
from s2s_cpu.training_linear import summed_outer_products

if TYPE_CHECKING:
    from collections.abc import Sequence


def lstm(parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """parts [T, B, 4 H], weight [4 H, H], h, c [B, H] -> [T, B, H], [T, B, H]"""
    results: tuple[Tensor, Tensor] = _LSTM.apply(parts, weight, h, c)
    return results


def accepts_lstm(parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> bool:
    """fp32 on a CPU, parts in fp32 or bf16, and a width that is a multiple of MULTIPLE; not in torch.func."""
    if not all(x.is_cpu and x.dtype == torch.float32 for x in (weight, h, c)) or not parts.numel():
        return False
    if parts.shape[1:] != (len(c), 4 * c.size(-1)) or h.shape != c.shape or c.size(-1) % MULTIPLE:
        return False
    return parts.dtype in TYPES and is_ordinary(weight) and not in_torch_func()


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        parts, c, n, dtype = parts.contiguous(), c.contiguous(), len(parts), parts.dtype
        weight, read, before, product = weight.to(dtype), h.to(dtype).contiguous(), c, torch.empty_like(parts[0])
        outputs, memories = torch.empty(n, *c.shape), torch.empty(n, *c.shape)
        read_next = outputs if dtype == torch.float32 else torch.empty(n, *c.shape, dtype=dtype)
        gates = torch.empty(parts.shape) if any(ctx.needs_input_grad) else None
        ctx.save_for_backward(weight, read, c, read_next, memories, gates)
        steps = zip(*(by_step(x, n) for x in (parts, gates, memories, outputs, read_next)), strict=True)
        for part, kept, after, output, narrow in steps:
            torch.mm(read, weight.t(), out=product)
            call("s2s_lstm_step", part, product, TYPES[dtype], *c.shape, before, kept, after, output, narrow)
            read, before = narrow, after
        ctx.set_materialize_grads(False)
        return outputs, memories

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor | None, dc: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, read, c, read_next, memories, gates = ctx.saved_tensors
        n, bits, later, carried = len(gates), TYPES[weight.dtype], torch.zeros_like(read), torch.zeros_like(c)
        d_parts = torch.empty_like(gates, dtype=weight.dtype)
        after = memories.unbind()
        steps = zip(by_step(dh, n), by_step(dc, n), gates.unbind(), (c, *after), after, d_parts.unbind(), strict=False)
        for dh_step, dc_step, kept, before, memory, d_part in reversed(list(steps)):
            given = dh_step, dc_step, later, bits, *c.shape, kept, before, memory
            call("s2s_lstm_step_backward", *given, carried, d_part)
            torch.mm(d_part, weight, out=later)
        d_weight = None
        if ctx.needs_input_grad[1]:
            rows, every_read = d_parts.flatten(0, 1), torch.cat([read[None], read_next[:-1]]).flatten(0, 1)
            d_weight = rows.t() @ every_read if bits == 32 else summed_outer_products(rows, every_read)
        return d_parts, d_weight, later.float(), carried


def by_step(x: Tensor | None, n: int) -> Sequence[Tensor | None]:
    """[T, ...] -> T contiguous tensors; n times None for None"""
    return [None] * n if x is None else x.contiguous().unbind()
