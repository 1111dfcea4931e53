"""Attention of short sentences in training, with its gradient; see `s2s.backend.operators.attention`.

A sentence has the same bits whatever the others are, so sentences are divided among as many threads as torch has.
Shapes: B sentences, h heads, T queries, S keys.
"""

from __future__ import annotations

__all__ = ["accepts_short_attention", "short_attention"]

import ctypes
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from s2s.backend import attention_weights, draw_mask
from s2s_cpu.library import call
from s2s_cpu.structs import HeadRowsStruct, ShortAttentionStruct

STEP = 16
"""Floats that a row of weights is filled up to, as in short_attention.c"""


class Part(NamedTuple):
    """Where queries, keys or values lie in a tensor that gets a gradient: itself, or what it is a view of."""

    source: int
    """Index of the tensor"""
    size: torch.Size
    stride: tuple[int, ...]
    offset: int

    def of(self, x: Tensor) -> Tensor:
        """[B, h, ·, d]"""
        return x.as_strided(self.size, self.stride, self.offset)


class Given(NamedTuple):
    """What is no source."""

    parts: tuple[Part, ...]
    """Of q, k and v"""
    bias: Tensor | None
    """[B, 1, 1, S]"""
    causal: bool
    dropout: float


def short_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """q [B, h, T, d_k], k [B, h, S, d_k], v [B, h, S, d_v] -> [B, h, T, d_v], of which the heads lie side by side.

    Where q, k and v, or k and v, are the parts of one projection, that gets one gradient: joining three took 2% of an
    update (width 128, bf16).
    """
    qkv, kv = projection(q, k, v), projection(k, v)
    sources = [qkv] if qkv is not None else [q, kv] if kv is not None else [q, k, v]
    which = ((0, 0, 0), (0, 1, 1), (0, 1, 2))[len(sources) - 1]
    parts = (Part(i, x.shape, x.stride(), int(x.storage_offset())) for i, x in zip(which, (q, k, v), strict=True))
    out: Tensor = ShortAttention.apply(Given(tuple(parts), bias, causal, dropout), *sources)
    return out.transpose(1, 2)


def accepts_short_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> bool:
    """fp32 or bf16 on a CPU, [B, h, T, d] in rows, and a bias at most for padding, [B, 1, 1, S]; not in torch.func."""
    del dropout
    if not q.is_cpu or q.dtype not in (torch.float32, torch.bfloat16) or not q.dtype == k.dtype == v.dtype:
        return False
    if q.dim() != 4 or k.shape[:2] != q.shape[:2] or not all(x.numel() and x.stride(3) == 1 for x in (q, k, v)):
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return bias is None or (not causal and bias.shape == (len(k), 1, 1, k.size(2)) and not bias.requires_grad)


def projection(*parts: Tensor) -> Tensor | None:
    """The tensor of rows of which `parts` [B, h, T, d] are all columns, one after the other."""
    whole = parts[0]._base
    n_sentences, _, length, _ = parts[0].shape
    width = sum(x.size(1) * x.size(3) for x in parts)
    if (
        whole is None
        or whole.dtype != parts[0].dtype
        or not whole.is_contiguous()
        or whole.numel() != n_sentences * length * width
    ):
        return None
    offset = whole.storage_offset()
    for x in parts:
        place = (length * width, x.size(3), width, 1), offset
        if x._base is not whole or x.requires_grad != whole.requires_grad or (x.stride(), x.storage_offset()) != place:
            return None
        offset += x.size(1) * x.size(3)
    return whole


class ShortAttention(torch.autograd.Function):
    """Keeps the weights, whose sign says which were dropped."""

    @staticmethod
    def forward(ctx: Any, given: Given, *sources: Tensor) -> Tensor:
        """[B, T, h, d_v]"""
        q, k, v = (part.of(sources[part.source]) for part in given.parts)
        n_sentences, n_heads, n_queries, _ = q.shape
        shape = n_sentences, n_heads, n_queries, k.size(2)
        mask = draw_mask(torch.Size(shape), given.dropout) if given.dropout else None
        bias = None if given.bias is None else given.bias[:, 0, 0].float().contiguous()  # [B, S]
        weights = None
        if any(ctx.needs_input_grad):
            weights = q.new_empty(*shape[:3], -(-shape[3] // STEP) * STEP, dtype=torch.float32)
        out = q.new_empty(n_sentences, n_queries, n_heads, v.size(3))
        ctx.parts, ctx.causal, ctx.factor = given.parts, given.causal, mask.factor if mask else 1.0
        ctx.save_for_backward(bias, weights, *sources)
        struct = described(ctx, q, k, v, out.transpose(1, 2))
        struct.bias, struct.weights = address(bias), address(weights)
        if mask:
            struct.words, struct.least = address(mask.words), mask.least
        call_divided("s2s_short_attention", struct)
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        """d_out [B, T, h, d_v]; differentiable where the gradient is to have a gradient, too."""
        bias, weights, *sources = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():
            return None, *gradients_in_torch(ctx, d_out, wanted)
        d_out = d_out if d_out.stride(3) == 1 else d_out.contiguous()
        q, k, v = (part.of(sources[part.source]) for part in ctx.parts)
        struct = described(ctx, q, k, v, d_out.transpose(1, 2))
        struct.bias, struct.weights = address(bias), address(weights)
        parts, grads = empty_gradients(ctx.parts, sources)
        of_q, *of_keys = (wanted[part.source] for part in ctx.parts)
        if of_q:
            struct.grad_q = rows(parts[0])
        if any(of_keys):
            struct.grad_k, struct.grad_v = map(rows, parts[1:])
        call_divided("s2s_short_attention_backward", struct)
        return None, *(x if needed else None for x, needed in zip(grads, wanted, strict=True))


def gradients_in_torch(ctx: Any, d_out: Tensor, wanted: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
    """Those of the sources as torch computes them, with a graph."""
    bias, kept, *sources = ctx.saved_tensors
    with torch.enable_grad():
        q, k, v = (part.of(sources[part.source]) for part in ctx.parts)
        weights = attention_weights(q, k, None if bias is None else bias[:, None, None], ctx.causal)
        factors = ~kept[..., : k.size(2)].signbit() * ctx.factor
        out = ((weights * factors).to(v.dtype) @ v).transpose(1, 2)
    inputs = [x for x, needed in zip(sources, wanted, strict=True) if needed]
    found = iter(torch.autograd.grad(out, inputs, d_out, create_graph=True))
    return tuple(next(found) if needed else None for needed in wanted)


def described(ctx: Any, q: Tensor, k: Tensor, v: Tensor, out: Tensor) -> ShortAttentionStruct:
    """What both passes are given; the tensors must live as long as it. out [B, h, T, d_v]: result or its gradient."""
    sizes = dict(zip(("B", "h", "T", "d_k"), q.shape, strict=True)) | {"S": k.size(2), "d_v": v.size(3)}
    struct = ShortAttentionStruct(q=rows(q), k=rows(k), v=rows(v), out=rows(out), causal=ctx.causal, **sizes)
    struct.is_bf16, struct.scale, struct.kept = q.dtype == torch.bfloat16, q.size(3) ** -0.5, ctx.factor
    return struct


def rows(x: Tensor) -> HeadRowsStruct:
    """x [B, h, T, d]"""
    return HeadRowsStruct(x.data_ptr(), *x.stride()[:3])


def address(x: Tensor | None) -> int | None:
    """Of its data."""
    return None if x is None else x.data_ptr()


def empty_gradients(parts: tuple[Part, ...], sources: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Memory for the gradients of parts [B, h, ·, d], the heads of a token side by side, and those of the sources."""
    of_parts, of_sources = [], []
    for i, source in enumerate(sources):
        here = [part for part in parts if part.source == i]
        if len(here) == 1:  # it is that part
            n_sentences, n_heads, length, width = here[0].size
            of_sources.append(source.new_empty(n_sentences, length, n_heads, width).transpose(1, 2))
            of_parts.append(of_sources[-1])
            continue
        of_sources.append(torch.empty_like(source))
        first = source.storage_offset()
        of_parts += [of_sources[-1].as_strided(part.size, part.stride, part.offset - first) for part in here]
    return of_parts, of_sources


def call_divided(name: str, struct: ShortAttentionStruct) -> None:
    """Call a function for all sentences."""
    n = min(torch.get_num_threads(), struct.B)
    pieces = list(pairwise(struct.B * i // n for i in range(n + 1)))
    if n == 1:
        call(name, ctypes.byref(struct), *pieces[0])
        return
    with ThreadPoolExecutor(n) as pool:
        list(pool.map(lambda piece: call(name, ctypes.byref(struct), *piece), pieces))
