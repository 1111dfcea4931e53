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
from s2s_cpu.rules import DTYPE_BITS, WIDTH_MULTIPLE, in_torch_func, is_ordinary
from s2s_cpu.training_linear import outer_product_sum

if TYPE_CHECKING:
    from collections.abc import Sequence


def lstm(parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """parts [T, B, 4 H], weight [4 H, H], h, c [B, H] -> [T, B, H], [T, B, H]"""
    results: tuple[Tensor, Tensor] = _LSTM.apply(parts, weight, h, c)
    return results


def accepts_lstm(parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> bool:
    """fp32 on a CPU, parts in fp32 or bf16, and a width that is a multiple of WIDTH_MULTIPLE; not in torch.func."""
    if not all(x.is_cpu and x.dtype == torch.float32 for x in (weight, h, c)) or not parts.numel():
        return False
    if parts.shape[1:] != (len(c), 4 * c.size(-1)) or h.shape != c.shape or c.size(-1) % WIDTH_MULTIPLE:
        return False
    return parts.dtype in DTYPE_BITS and is_ordinary(weight) and not in_torch_func()


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        parts, c, n, dtype = parts.contiguous(), c.contiguous(), len(parts), parts.dtype
        weight, h_in = weight.to(dtype).contiguous(), h.to(dtype).contiguous()
        before, product = c, torch.empty_like(parts[0])
        outputs, memories = torch.empty(n, *c.shape), torch.empty(n, *c.shape)
        inputs = outputs if dtype == torch.float32 else torch.empty(n, *c.shape, dtype=dtype)
        gates = torch.empty(parts.shape) if any(ctx.needs_input_grad) else None
        ctx.save_for_backward(weight, h_in, c, inputs, memories, gates)
        steps = zip(*(unbind_steps(x, n) for x in (parts, gates, memories, outputs, inputs)), strict=True)
        for part, step_gates, after, output, h_out in steps:
            torch.mm(h_in, weight.t(), out=product)
            call("s2s_lstm_step", part, product, DTYPE_BITS[dtype], *c.shape, before, step_gates, after, output, h_out)
            h_in, before = h_out, after
        ctx.set_materialize_grads(False)
        return outputs, memories

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor | None, dc: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, h_in, c, inputs, memories, gates = ctx.saved_tensors
        n, bits, dh_next, dc_next = len(gates), DTYPE_BITS[weight.dtype], torch.zeros_like(h_in), torch.zeros_like(c)
        d_parts = torch.empty_like(gates, dtype=weight.dtype)
        after = memories.unbind()
        d_outputs, d_memories = unbind_steps(dh, n), unbind_steps(dc, n)
        steps = zip(d_outputs, d_memories, gates.unbind(), (c, *after), after, d_parts.unbind(), strict=False)
        for dh_step, dc_step, step_gates, before, memory, d_part in reversed(list(steps)):
            given = dh_step, dc_step, dh_next, bits, *c.shape, step_gates, before, memory
            call("s2s_lstm_step_backward", *given, dc_next, d_part)
            torch.mm(d_part, weight, out=dh_next)
        d_weight = None
        if ctx.needs_input_grad[1]:
            rows, all_h_in = d_parts.flatten(0, 1), torch.cat([h_in[None], inputs[:-1]]).flatten(0, 1)
            d_weight = rows.t() @ all_h_in if bits == 32 else outer_product_sum(rows, all_h_in)
        return d_parts, d_weight, dh_next.float(), dc_next


def unbind_steps(x: Tensor | None, n: int) -> Sequence[Tensor | None]:
    """[T, ...] -> T contiguous tensors; n times None for None"""
    return [None] * n if x is None else x.contiguous().unbind()
