"""Attention of short sentences in training, with its gradient; see `s2s.backend.operators.attention`.

A sentence's result has the same bits whatever the others are, so sentences are divided among torch's threads.
Shapes: B sentences, h heads, T queries, S keys.
"""

from __future__ import annotations

__all__ = ["short_attention"]

from typing import Any

import torch
from torch import Tensor

from s2s.backend import operators
from s2s_cpu.training_attention import address, build_struct, call_in_threads, input_gradients, reference_gradients
from s2s_cpu.training_attention import rows as head_rows

ROW_MULTIPLE = 16
"""Rows of weights are padded to a multiple of this many floats. ROW_MULTIPLE in short_attention.c"""


def short_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """q [B, h, T, d_k], k [B, h, S, d_k], v [B, h, S, d_v] -> [B, h, T, d_v], stored as [B, T, h, d_v]."""
    out: Tensor = ShortAttention.apply(q, k, v, bias, causal, dropout)
    return out.transpose(1, 2)


class ShortAttention(torch.autograd.Function):
    """Keeps the weights, whose sign says which were dropped."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
        """[B, T, h, d_v]"""
        n_sentences, n_heads, n_queries, _ = q.shape
        shape = n_sentences, n_heads, n_queries, k.size(2)
        mask = operators.draw_mask(torch.Size(shape), dropout) if dropout else None
        bias = None if bias is None else bias[:, 0, 0].float().contiguous()  # [B, S]
        weights = None
        if any(ctx.needs_input_grad):
            weights = q.new_empty(*shape[:3], -(-shape[3] // ROW_MULTIPLE) * ROW_MULTIPLE, dtype=torch.float32)
        out = q.new_empty(n_sentences, n_queries, n_heads, v.size(3))
        ctx.causal, ctx.factor = causal, mask.factor if mask else 1.0
        ctx.save_for_backward(q, k, v, bias, weights)
        struct = build_struct(ctx, (q, k, v), bias)
        struct.out, struct.weights = head_rows(out.transpose(1, 2)), address(weights)
        if mask:
            struct.random, struct.threshold = address(mask.words), mask.threshold
        call_in_threads("s2s_short_attention", struct, n_sentences)
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
        gradients = input_gradients(ctx, "s2s_short_attention_backward", struct, struct.B, inputs, d_out)
        return *gradients, None, None, None
