"""Attention of long sentences in training, with its gradient; see `s2s.backend.operators.attention`.

It is computed in tiles, so that memory grows with the length, but for dropout, of which a bit of each weight is kept.
A head's result has the same bits whatever the others are, so heads are divided among torch's threads.
Shapes: B sentences, h heads, T queries, S keys.
"""

from __future__ import annotations

__all__ = ["tiled_attention"]

from typing import Any

import torch
from torch import Tensor

from s2s.backend import operators
from s2s_cpu.library import call
from s2s_cpu.training_attention import address, build_struct, call_in_threads, input_gradients, reference_gradients
from s2s_cpu.training_attention import rows as head_rows

SIDE = 32
"""Queries whose bits share a number; keys are padded to a multiple of it. SIDE in bf16_blocks.h"""
DRAWN_AT_ONCE = 1 << 20
"""Random numbers in memory at once"""


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """q [B, h, T, d_k], k [B, h, S, d_k], v [B, h, S, d_v] -> [B, h, T, d_v], stored as [B, T, h, d_v]."""
    out: Tensor = TiledAttention.apply(q, k, v, bias, causal, dropout)
    return out.transpose(1, 2)


class TiledAttention(torch.autograd.Function):
    """Keeps the largest score of each query and the sum of its weights, from which weights are computed again."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
        """[B, T, h, d_v]"""
        n_sentences, n_heads, n_queries, _ = q.shape
        bias = None if bias is None else bias[:, 0, 0].float().contiguous()  # [B, S]
        kept, ctx.factor = draw_kept((n_sentences, n_heads, n_queries, k.size(2)), dropout) if dropout else (None, 1.0)
        out = q.new_empty(n_sentences, n_queries, n_heads, v.size(3))
        statistics = None
        if any(ctx.needs_input_grad):
            statistics = q.new_empty(n_sentences, n_heads, 2, n_queries, dtype=torch.float32)
        ctx.causal = causal
        ctx.save_for_backward(q, k, v, bias, out, kept, statistics)
        struct = build_struct(ctx, (q, k, v), bias)
        struct.out = head_rows(out.transpose(1, 2))
        struct.kept, struct.statistics = address(kept), address(statistics)
        call_in_threads("s2s_tiled_attention", struct, n_sentences * n_heads)
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        """d_out [B, T, h, d_v]; differentiable where a gradient of the gradient is needed."""
        *inputs, bias, out, kept, statistics = ctx.saved_tensors
        if torch.is_grad_enabled():
            all_kept = True if kept is None else unpack(kept, inputs[0].size(2), inputs[1].size(2))
            return *reference_gradients(ctx, inputs, bias, all_kept, d_out), None, None, None
        struct = build_struct(ctx, inputs, bias)
        struct.out = head_rows(out.transpose(1, 2))
        struct.kept, struct.statistics = address(kept), address(statistics)
        n_heads = struct.B * struct.h
        gradients = input_gradients(ctx, "s2s_tiled_attention_backward", struct, n_heads, inputs, d_out)
        return *gradients, None, None, None


def draw_kept(shape: tuple[int, int, int, int], p: float) -> tuple[Tensor, float]:
    """Which weights [B, h, T, S] dropout keeps, drawn by `draw_mask` for some rows at a time, and their factor.

    Bits of 32-bit numbers [B, h, T / SIDE, S], both rounded up: bit t % SIDE is that of query t.
    """
    *heads, n_queries, n_keys = shape
    kept = torch.zeros(*heads, -(-n_queries // SIDE), -(-n_keys // SIDE) * SIDE, dtype=torch.int32)
    n_rows = heads[0] * heads[1] * n_queries
    at_once = max(1, DRAWN_AT_ONCE // n_keys)
    for first in range(0, n_rows, at_once):
        n = min(at_once, n_rows - first)
        words, threshold, factor = operators.draw_mask(torch.Size((n, n_keys)), p)
        call("s2s_pack_kept", words, first, n, n_queries, n_keys, threshold, kept)
    return kept, factor


def unpack(kept: Tensor, n_queries: int, n_keys: int) -> Tensor:
    """The bits of `draw_kept` as [B, h, T, S]."""
    bits = kept[:, :, :, None] >> torch.arange(SIDE)[:, None] & 1  # [B, h, T / SIDE, SIDE, S]
    return bits.flatten(2, 3)[:, :, :n_queries, :n_keys].bool()
