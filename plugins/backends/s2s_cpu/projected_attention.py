"""Attention of short sentences in bf16 training with the linear maps before and after it, as one node of the graph.

As nodes of their own they leave views of projections and a copy of the gradients of their parts between them, which in
a small model takes as long as some of the products.

Shapes: B sentences, T queries, S keys, h heads, I inputs, J inputs of keys and values, P values of a projection,
O outputs.
"""

from __future__ import annotations

__all__ = ["accepts_projected_attention", "projected_attention"]

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from s2s_cpu.bf16_linear import apply_weight, input_gradient, parameter_gradients, uses_bf16_linear
from s2s_cpu.short_attention import BACKWARD, attend, bias_rows
from s2s_cpu.structs import HeadRowsStruct, TrainingAttentionStruct
from s2s_cpu.training_attention import accepts_bias, address, call_in_threads
from s2s_cpu.training_linear import accepts_linear, are_linear_parameters

if TYPE_CHECKING:
    from s2s.backend import operators


def projected_attention(
    x: Tensor, memory: Tensor | None, maps: operators.AttentionMaps, bias: Tensor | None, causal: bool, dropout: float
) -> Tensor:
    """x [B, T, I], memory [B, S, J], in fp32 or bf16 -> [B, T, O] in bf16"""
    settings = _Settings(maps.n_heads, causal, dropout)
    parameters = (*maps.queries, *(maps.keys_values or (None, None)), *maps.out)
    result: Tensor = _ProjectedAttention.apply(x, memory, *parameters, bias, settings)
    return result


def accepts_projected_attention(
    x: Tensor, memory: Tensor | None, maps: operators.AttentionMaps, bias: Tensor | None, causal: bool, dropout: float
) -> bool:
    """Where all linear maps are functions in C, and none of their parameters is frozen."""
    del dropout
    given = ((x, maps.queries), (memory, maps.keys_values))
    linear_maps = [(inputs, *map_) for inputs, map_ in given if inputs is not None and map_ is not None]
    out, out_bias = maps.out
    parameters = [t for _, *both in linear_maps for t in both] + [out, out_bias]
    if x.dim() != 3 or (memory is not None and (memory.dim() != 3 or len(memory) != len(x))):
        return False
    if not all(t.requires_grad for t in parameters if t is not None):
        return False
    in_c = all(uses_bf16_linear(t.size(-1)) for t in parameters if t is not None and t.dim() > 1)
    if not in_c or not all(accepts_linear(*each) for each in linear_maps):
        return False
    keys = x if memory is None else memory
    return are_linear_parameters(out.size(-1), out, out_bias) and accepts_bias(bias, causal, *keys.shape[:2])


class _Settings(NamedTuple):
    n_heads: int
    causal: bool
    dropout: float


class _ProjectedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        memory: Tensor | None,
        w1: Tensor,
        b1: Tensor | None,
        w2: Tensor | None,
        b2: Tensor | None,
        w3: Tensor,
        b3: Tensor | None,
        bias: Tensor | None,
        settings: _Settings,
    ) -> Tensor:
        """w1, b1: of queries, or of all; w2, b2: of keys and values; w3, b3: of the output"""
        x, w1, w3 = x.contiguous(), w1.contiguous(), w3.contiguous()
        memory, w2, b1, b2, b3 = (t if t is None else t.contiguous() for t in (memory, w2, b1, b2, b3))
        own = apply_weight(x, w1, b1)
        other = None if memory is None or w2 is None else apply_weight(memory, w2, b2)
        bias, heads = bias_rows(bias), x.new_empty(*x.shape[:2], w3.size(1), dtype=torch.bfloat16)
        struct = _struct(own, other, heads, bias, settings)
        struct.out = _columns(heads, 0, struct.d_v)
        weights = attend(struct, settings.dropout)
        ctx.save_for_backward(x, memory, w1, w2, w3, own, other, heads, bias, weights)
        ctx.settings, ctx.factor, ctx.has_bias = settings, struct.kept_factor, [b is not None for b in (b1, b2, b3)]
        return apply_weight(heads, w3, b3)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        x, memory, w1, w2, w3, own, other, heads, bias, weights = ctx.saved_tensors
        (for_x, for_memory, *_), d_out = ctx.needs_input_grad, d_out.contiguous()
        d_heads, d_own = input_gradient(d_out, w3, heads.dtype), torch.empty_like(own)
        d_other = None if other is None else torch.empty_like(other)
        struct = _struct(own, other, heads, bias, ctx.settings)
        struct.weights, struct.kept_factor = address(weights), ctx.factor
        struct.d_out = _columns(d_heads, 0, struct.d_v)
        struct.grad_q, struct.grad_k, struct.grad_v = _parts(d_own, d_other, struct)
        call_in_threads(BACKWARD, struct, struct.B)
        of_memory: tuple[Tensor | None, ...] = (None, None)
        if d_other is not None:
            of_memory = parameter_gradients(d_other, memory, has_bias=ctx.has_bias[1])
        d_memory = input_gradient(d_other, w2, memory.dtype) if d_other is not None and for_memory else None
        of_x = parameter_gradients(d_own, x, has_bias=ctx.has_bias[0])
        of_heads = parameter_gradients(d_out, heads, has_bias=ctx.has_bias[2])
        return input_gradient(d_own, w1, x.dtype) if for_x else None, d_memory, *of_x, *of_memory, *of_heads, None, None


def _struct(
    own: Tensor, other: Tensor | None, heads: Tensor, bias: Tensor | None, settings: _Settings
) -> TrainingAttentionStruct:
    """own [B, T, P]: queries, or all; other [B, S, P]: keys and values; heads [B, T, h d_v]; bias [B, S]"""
    h, all_values = settings.n_heads, heads.size(2)
    d_k = own.size(2) // h if other is not None else (own.size(2) - all_values) // (2 * h)
    n_keys = (own if other is None else other).size(1)
    sizes = {"B": len(own), "h": h, "T": own.size(1), "S": n_keys, "d_k": d_k, "d_v": all_values // h}
    struct = TrainingAttentionStruct(**sizes, bits=16, causal=settings.causal, bias=address(bias), kept_factor=1.0)
    struct.scale = d_k**-0.5
    struct.q, struct.k, struct.v = _parts(own, other, struct)
    return struct


def _parts(own: Tensor, other: Tensor | None, struct: TrainingAttentionStruct) -> tuple[HeadRowsStruct, ...]:
    """The queries, keys and values of projections, or their gradients."""
    d_k, d_v, all_keys = struct.d_k, struct.d_v, struct.h * struct.d_k
    keys_values, first = (own, all_keys) if other is None else (other, 0)
    k, v = _columns(keys_values, first, d_k), _columns(keys_values, first + all_keys, d_v)
    return _columns(own, 0, d_k), k, v


def _columns(x: Tensor, first: int, width: int) -> HeadRowsStruct:
    """Heads of x [B, T, P], contiguous in bf16, each `width` columns from the `first` on"""
    n_rows, row = x.shape[1:]
    return HeadRowsStruct(x.data_ptr() + first * x.element_size(), n_rows * row, width, row)
