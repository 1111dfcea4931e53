"""Attention of short sentences in training, with its gradient; see `s2s.backend.operators.attention`.

A sentence's result has the same bits whatever the others are, so sentences are divided among torch's threads.
Shapes: B sentences, h heads, T queries, S keys.
"""

from __future__ import annotations

__all__ = ["accepts_short_attention", "short_attention"]

import ctypes
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from s2s.backend import operators
from s2s_cpu.library import call
from s2s_cpu.rules import DTYPE_BITS, in_torch_func
from s2s_cpu.structs import HeadRowsStruct, ShortAttentionStruct
from s2s_cpu.threads import compute_shares, n_shares

ROW_MULTIPLE = 16
"""A row of weights is padded to a multiple of this many floats, as in short_attention.c"""


def short_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """q [B, h, T, d_k], k [B, h, S, d_k], v [B, h, S, d_v] -> [B, h, T, d_v], stored as [B, T, h, d_v]."""
    out: Tensor = ShortAttention.apply(q, k, v, bias, causal, dropout)
    return out.transpose(1, 2)


def accepts_short_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> bool:
    """fp32 or bf16 on a CPU, [B, h, T, d] with contiguous rows, at most a padding bias [B, 1, 1, S]; no torch.func."""
    del dropout
    if not q.is_cpu or q.dtype not in DTYPE_BITS or not q.dtype == k.dtype == v.dtype:
        return False
    if q.dim() != 4 or k.shape[:2] != q.shape[:2] or k.shape[:3] != v.shape[:3] or k.size(3) != q.size(3):
        return False
    if not all(x.numel() and x.stride(3) == 1 for x in (q, k, v)):
        return False
    if in_torch_func():
        return False
    return bias is None or (not causal and bias.shape == (len(k), 1, 1, k.size(2)) and not bias.requires_grad)


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
        struct = build_struct(ctx, q, k, v, out.transpose(1, 2))
        struct.bias, struct.weights = address(bias), address(weights)
        if mask:
            struct.random, struct.threshold = address(mask.words), mask.threshold
        call_in_threads("s2s_short_attention", struct)
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        """d_out [B, T, h, d_v]; differentiable where a gradient of the gradient is needed."""
        q, k, v, bias, weights = ctx.saved_tensors
        requested = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            return *reference_gradients(ctx, d_out, requested), None, None, None
        d_out = d_out if d_out.stride(3) == 1 else d_out.contiguous()
        struct = build_struct(ctx, q, k, v, d_out.transpose(1, 2))
        struct.bias, struct.weights = address(bias), address(weights)
        grads = [torch.empty_like(x.transpose(1, 2), memory_format=torch.contiguous_format) for x in (q, k, v)]
        grad_q, grad_k, grad_v = grads = [x.transpose(1, 2) for x in grads]
        if requested[0]:
            struct.grad_q = rows(grad_q)
        if requested[1] or requested[2]:
            struct.grad_k, struct.grad_v = rows(grad_k), rows(grad_v)
        call_in_threads("s2s_short_attention_backward", struct)
        return *(x if needed else None for x, needed in zip(grads, requested, strict=True)), None, None, None


def reference_gradients(ctx: Any, d_out: Tensor, requested: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
    """The gradients of q, k and v as torch computes them, with a graph."""
    q, k, v, bias, kept = ctx.saved_tensors
    with torch.enable_grad():
        weights = operators.attention_weights(q, k, None if bias is None else bias[:, None, None], ctx.causal)
        factors = ~kept[..., : k.size(2)].signbit() * ctx.factor
        out = ((weights * factors).to(v.dtype) @ v).transpose(1, 2)
    inputs = [x for x, needed in zip((q, k, v), requested, strict=True) if needed]
    gradients = iter(torch.autograd.grad(out, inputs, d_out, create_graph=True))
    return tuple(next(gradients) if needed else None for needed in requested)


def build_struct(ctx: Any, q: Tensor, k: Tensor, v: Tensor, out: Tensor) -> ShortAttentionStruct:
    """The arguments of both passes; the tensors must outlive it. out [B, h, T, d_v]: the result or its gradient."""
    sizes = dict(zip(("B", "h", "T", "d_k"), q.shape, strict=True)) | {"S": k.size(2), "d_v": v.size(3)}
    struct = ShortAttentionStruct(q=rows(q), k=rows(k), v=rows(v), out=rows(out), causal=ctx.causal, **sizes)
    struct.bits, struct.scale, struct.kept_factor = DTYPE_BITS[q.dtype], q.size(3) ** -0.5, ctx.factor
    return struct


def rows(x: Tensor) -> HeadRowsStruct:
    """x [B, h, T, d]"""
    return HeadRowsStruct(x.data_ptr(), *x.stride()[:3])


def address(x: Tensor | None) -> int | None:
    """The address of its data, or None."""
    return None if x is None else x.data_ptr()


def call_in_threads(name: str, struct: ShortAttentionStruct) -> None:
    """Call a function for all sentences, divided among threads."""
    n = n_shares(struct.B, struct.h * struct.T * (struct.S + struct.d_k + struct.d_v))
    bounds = (struct.B * i // n for i in range(n + 1))
    compute_shares(lambda first, end: call(name, ctypes.byref(struct), first, end), list(pairwise(bounds)))
