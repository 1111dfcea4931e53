"""All steps of an LSTM layer, with their gradient: products by torch, the rest of a step in one call.

The gates are kept for the backward pass. A gradient of the gradient is refused; with S2S_KERNELS=torch there is one.
Shapes: T steps, B sentences, H width.
"""

from __future__ import annotations

__all__ = ["accepts_lstm", "lstm"]

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from s2s_cpu.library import call
from s2s_cpu.residual import MULTIPLE, TYPES, in_torch_func
from s2s_cpu.training_linear import is_plain, summed_outer_products

if TYPE_CHECKING:
    from collections.abc import Sequence


def lstm(parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """parts [T, B, 4 H], weight [4 H, H], h, c [B, H] -> [T, B, H], [T, B, H]"""
    outputs: tuple[Tensor, Tensor] = _LSTM.apply(parts, weight, h, c)
    return outputs


def accepts_lstm(parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> bool:
    """fp32, or parts in bf16 where the processor multiplies that, on a CPU; the width a multiple of a vector's."""
    if not all(x.is_cpu and x.dtype == torch.float32 for x in (weight, h, c)) or not parts.numel():
        return False
    return parts.dtype in TYPES and c.size(-1) % MULTIPLE == 0 and is_plain(weight) and not in_torch_func()


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        n, dtype = len(parts), parts.dtype
        outputs, memories = (torch.cat([x[None], x.new_empty(n, *x.shape)]) for x in (h, c))  # [1 + T, B, H]
        read = outputs if dtype == torch.float32 else outputs.to(dtype)
        gates = torch.empty(parts.shape) if any(ctx.needs_input_grad) else None
        weight, product = weight.to(dtype), torch.empty_like(parts[0])
        before, after = (read, memories), (memories[1:], outputs[1:], read[1:])
        steps = zip(*(x.unbind() for x in (*before, *after, parts.contiguous())), strict=False)
        for of_step, (h_read, c, c_after, h_after, h_after_read, part) in zip(by_step(gates, n), steps, strict=True):
            torch.mm(h_read, weight.t(), out=product)
            call("s2s_lstm_step", part, product, TYPES[dtype], *c.shape, c, of_step, c_after, h_after, h_after_read)
        ctx.save_for_backward(weight, read, memories, gates)
        ctx.set_materialize_grads(False)
        return outputs[1:], memories[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor | None, dc: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, read, memories, gates = ctx.saved_tensors
        n, bits, shape = len(gates), TYPES[weight.dtype], memories.shape[1:]
        later, carried = torch.zeros_like(read[0]), torch.zeros_like(memories[0])
        d_parts = torch.empty_like(gates, dtype=weight.dtype)
        given = by_step(dh, n), by_step(dc, n)
        kept = gates.unbind(), memories[:-1].unbind(), memories[1:].unbind()
        steps = list(zip(*given, *kept, d_parts.unbind(), strict=True))
        for dh_step, dc_step, of_step, c, c_after, d_part in reversed(steps):
            state = of_step, c, c_after, carried
            call("s2s_lstm_step_backward", dh_step, dc_step, later, bits, *shape, *state, d_part)
            torch.mm(d_part, weight, out=later)
        rows, before = d_parts.flatten(0, 1), read[:-1].flatten(0, 1)
        d_weight = rows.t() @ before if bits == 32 else summed_outer_products(rows, before)
        return d_parts, d_weight, later.float(), carried


def by_step(x: Tensor | None, n: int) -> Sequence[Tensor | None]:
    """[T, ...] -> T tensors in rows, or n times None"""
    return [None] * n if x is None else x.contiguous().unbind()
