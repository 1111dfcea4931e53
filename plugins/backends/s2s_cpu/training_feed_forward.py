"""Feed-forward networks of training in bf16 as one function: its products keep or drop values as they are stored.

Shapes: I inputs, H values between both linear maps, O outputs.
"""

from __future__ import annotations

__all__ = ["accepts_feed_forward", "feed_forward"]

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from s2s_cpu.bf16_linear import apply_weight, input_gradient, parameter_gradients, uses_bf16_linear
from s2s_cpu.training_linear import accepts_linear, are_linear_parameters

if TYPE_CHECKING:
    from s2s.backend import linear


def feed_forward(x: Tensor, inner: linear.WeightAndBias, out: linear.WeightAndBias) -> Tensor:
    """x [..., I] in fp32 or bf16; inner [H, I] and [H], out [O, H] and [O], in fp32 -> [..., O] in bf16"""
    result: Tensor = _FeedForward.apply(x, *inner, *out)
    return result


def accepts_feed_forward(x: Tensor, inner: linear.WeightAndBias, out: linear.WeightAndBias) -> bool:
    """Where both linear maps are functions in C, and none of their parameters is frozen."""
    weight, bias = inner
    trained = all(t.requires_grad for t in (*inner, *out) if t is not None)
    in_c = uses_bf16_linear(weight.size(-1)) and uses_bf16_linear(len(weight))
    return trained and in_c and accepts_linear(x, weight, bias) and are_linear_parameters(len(weight), *out)


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w1: Tensor, b1: Tensor | None, w2: Tensor, b2: Tensor | None) -> Tensor:
        x, w1, w2 = x.contiguous(), w1.contiguous(), w2.contiguous()
        b1, b2 = (b if b is None else b.contiguous() for b in (b1, b2))
        hidden = apply_weight(x, w1, b1, relu=True)
        ctx.save_for_backward(x, hidden, w1, w2)
        ctx.has_biases = b1 is not None, b2 is not None
        return apply_weight(hidden, w2, b2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        (x, hidden, w1, w2), d_out = ctx.saved_tensors, d_out.contiguous()
        d_hidden = input_gradient(d_out, w2, hidden.dtype, where=hidden)
        dw2, db2 = parameter_gradients(d_out, hidden, has_bias=ctx.has_biases[1])
        dw1, db1 = parameter_gradients(d_hidden, x, has_bias=ctx.has_biases[0])
        return input_gradient(d_hidden, w1, x.dtype) if ctx.needs_input_grad[0] else None, dw1, db1, dw2, db2
