"""What attention of short and of long sentences in training have in common: their arguments and their gradients.

Shapes: B sentences, h heads, T queries, S keys.
"""

from __future__ import annotations

__all__ = [
    "accepts_attention",
    "accepts_bias",
    "address",
    "build_struct",
    "call_in_threads",
    "input_gradients",
    "reference_gradients",
]

import ctypes
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from s2s.backend import operators
from s2s_cpu.library import call
from s2s_cpu.rules import DTYPE_BITS, in_torch_func
from s2s_cpu.structs import HeadRowsStruct, TrainingAttentionStruct
from s2s_cpu.threads import compute_shares, n_shares

if TYPE_CHECKING:
    from collections.abc import Sequence


def accepts_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> bool:
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
    return accepts_bias(bias, causal, len(k), k.size(2))


def accepts_bias(bias: Tensor | None, causal: bool, n_sentences: int, n_keys: int) -> bool:
    """None, or a bias of padding [B, 1, 1, S] without a gradient."""
    return bias is None or (not causal and bias.shape == (n_sentences, 1, 1, n_keys) and not bias.requires_grad)


def build_struct(ctx: Any, inputs: Sequence[Tensor], bias: Tensor | None) -> TrainingAttentionStruct:
    """The inputs q, k, v and bias [B, S] of both passes; the tensors must outlive it."""
    q, k, v = inputs
    sizes = dict(zip(("B", "h", "T", "d_k"), q.shape, strict=True)) | {"S": k.size(2), "d_v": v.size(3)}
    struct = TrainingAttentionStruct(q=rows(q), k=rows(k), v=rows(v), bias=address(bias), causal=ctx.causal, **sizes)
    struct.bits, struct.scale, struct.kept_factor = DTYPE_BITS[q.dtype], q.size(3) ** -0.5, ctx.factor
    return struct


def rows(x: Tensor) -> HeadRowsStruct:
    """x [B, h, T, d]"""
    return HeadRowsStruct(x.data_ptr(), *x.stride()[:3])


def address(x: Tensor | None) -> int | None:
    """The address of its data, or None."""
    return None if x is None else x.data_ptr()


def call_in_threads(name: str, struct: TrainingAttentionStruct, n: int) -> None:
    """Call a function for all of n parts of equal size, divided among threads."""
    n_values = struct.B * struct.h * struct.T * (struct.S + struct.d_k + struct.d_v)
    n_threads = n_shares(n, n_values // n)
    bounds = (n * i // n_threads for i in range(n_threads + 1))
    compute_shares(lambda first, end: call(name, ctypes.byref(struct), first, end), list(pairwise(bounds)))


def input_gradients(
    ctx: Any, name: str, struct: TrainingAttentionStruct, n: int, inputs: Sequence[Tensor], d_out: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of q, k and v that are needed, by a function for n parts; d_out [B, T, h, d_v]"""
    requested = ctx.needs_input_grad[:3]
    d_out = d_out if d_out.stride(3) == 1 else d_out.contiguous()
    struct.d_out = rows(d_out.transpose(1, 2))
    grads = [torch.empty_like(x.transpose(1, 2), memory_format=torch.contiguous_format) for x in inputs]
    grad_q, grad_k, grad_v = grads = [x.transpose(1, 2) for x in grads]
    if requested[0]:
        struct.grad_q = rows(grad_q)
    if requested[1] or requested[2]:
        struct.grad_k, struct.grad_v = rows(grad_k), rows(grad_v)
    call_in_threads(name, struct, n)
    return tuple(x if needed else None for x, needed in zip(grads, requested, strict=True))


def reference_gradients(
    ctx: Any, inputs: Sequence[Tensor], bias: Tensor | None, kept: Tensor | bool, d_out: Tensor
) -> tuple[Tensor | None, ...]:
    """The same as torch computes them, with a graph. bias [B, S]; kept [B, h, T, S], where dropout keeps a weight"""
    q, k, v = inputs
    requested = ctx.needs_input_grad[:3]
    with torch.enable_grad():
        weights = operators.attention_weights(q, k, None if bias is None else bias[:, None, None], ctx.causal)
        out = ((weights * (kept * ctx.factor)).to(v.dtype) @ v).transpose(1, 2)
    wanted = [x for x, needed in zip((q, k, v), requested, strict=True) if needed]
    gradients = iter(torch.autograd.grad(out, wanted, d_out, create_graph=True))
    return tuple(next(gradients) if needed else None for needed in requested)
