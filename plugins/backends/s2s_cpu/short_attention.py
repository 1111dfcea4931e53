"""Attention of short sentences in training, with its gradient; see `s2s.backend.operators.attention`.

A sentence's result has the same bits whatever the others are, so sentences are divided among torch's threads.
Shapes: B sentences, h heads, T queries, S keys.
"""

from __future__ import annotations

__all__ = ["BACKWARD", "attend", "bias_rows", "short_attention"]

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from s2s.backend import operators
from s2s_cpu.training_attention import address, build_struct, call_in_threads, input_gradients, reference_gradients
from s2s_cpu.training_attention import rows as head_rows

if TYPE_CHECKING:
    from s2s_cpu.structs import TrainingAttentionStruct

ROW_MULTIPLE = 16
"""Rows of weights are padded to a multiple of this many floats. ROW_MULTIPLE in short_attention.c"""
BACKWARD = "s2s_short_attention_backward"
"""Writes the gradients of sentences"""


def short_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """q [B, h, T, d_k], k [B, h, S, d_k], v [B, h, S, d_v] -> [B, h, T, d_v], stored as [B, T, h, d_v]."""
    out: Tensor = ShortAttention.apply(q, k, v, bias, causal, dropout)
    return out.transpose(1, 2)


class ShortAttention(torch.autograd.Function):
    """Keeps the weights, whose sign says which were dropped."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
        """[B, T, h, d_v]"""
        bias = bias_rows(bias)
        ctx.causal, ctx.factor = causal, 1.0
        struct = build_struct(ctx, (q, k, v), bias)
        out = q.new_empty(len(q), q.size(2), q.size(1), v.size(3))
        struct.out = head_rows(out.transpose(1, 2))
        weights = attend(struct, dropout, keep=any(ctx.needs_input_grad))
        ctx.factor = struct.kept_factor
        ctx.save_for_backward(q, k, v, bias, weights)
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        """d_out [B, T, h, d_v]; differentiable where a gradient of the gradient is needed."""
        *inputs, bias, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            kept = ~weights[..., : inputs[1].size(2)].signbit()
            return *reference_gradients(ctx, inputs, bias, kept, d_out), None, None, None
        struct = build_struct(ctx, inputs, bias)
        struct.weights = address(weights)
        gradients = input_gradients(ctx, BACKWARD, struct, struct.B, inputs, d_out)
        return *gradients, None, None, None


def bias_rows(bias: Tensor | None) -> Tensor | None:
    """[B, 1, 1, S] -> [B, S] in fp32"""
    return None if bias is None else bias[:, 0, 0].float().contiguous()


def attend(struct: TrainingAttentionStruct, dropout: float, *, keep: bool = True) -> Tensor | None:
    """Draws what dropout drops, and writes the output; returns the weights [B, h, T, S], S rounded up, or None."""
    shape = struct.B, struct.h, struct.T, struct.S
    row = -(-struct.S // ROW_MULTIPLE) * ROW_MULTIPLE
    weights = torch.empty(*shape[:3], row) if keep else None
    struct.weights = address(weights)
    mask = operators.draw_mask(torch.Size(shape), dropout) if dropout else None
    if mask:
        struct.random, struct.threshold, struct.kept_factor = address(mask.words), mask.threshold, mask.factor
    call_in_threads("s2s_short_attention", struct, struct.B)
    return weights
