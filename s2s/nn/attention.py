"""Multi-head attention (section 3.2): projections here, and a layout that determines which position may see which.

Only the layout depends on how sentences lie in memory: inputs are [..., T, D], heads are [..., h, T, d].
Shapes: B sentences, T queries, S keys, D = d_model, h heads, d_k and d_v per head.
"""

from __future__ import annotations

__all__ = [
    "KERNELS",
    "CrossAttention",
    "Heads",
    "KeysValues",
    "Layout",
    "PaddedLayout",
    "PaddedLayoutWithWeights",
    "SelfAttention",
    "recording_weights",
]

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s.backend.operators import (
    AttentionMaps,
    Kernel,
    apply_dropout,
    attention_weights,
    padded_attention,
    projected_attention,
    short_attention,
    tiled_attention,
)
from s2s.backend.operators.attention import BLOCKED, math_attention
from s2s.nn.linear import Linear, Projections

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHORT = 128
"""Maximum number of keys for which training on a CPU holds all weights of a sentence"""


def sdpa(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """torch's own choice among its kernels."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout, is_causal=causal)


def auto(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """`sdpa`; on a CPU, `tiled_attention` for long sentences, `short_attention` for others in training, and otherwise
    `math` for 16-bit numbers.

    (One core of an EPYC with AVX512-BF16, torch 2.13, forward and backward, 4 heads of width 64. In bf16 sdpa took 2 to
    8 times as long as `math` from 8 to 256 tokens. For 4,000 tokens sdpa, `math` and `tiled_attention` took 0.66, 0.37
    and 0.37 s in bf16, 0.37, 0.40 and 0.20 if causal; in fp32 0.79, 1.29 and 0.63, and 0.48, 0.82 and 0.34. For 128
    tokens `short_attention` took half to all of the time of `tiled_attention`.) Whole sentences without gradients go to
    `padded_attention`, since a translation must not depend on the rest of its batch, and the last bits of torch's own
    kernels depend on the amount of padding.
    """
    if not (causal or dropout or torch.is_grad_enabled()):
        return padded_attention(q, k, v, bias)
    if q.device.type != "cpu":
        return sdpa(q, k, v, bias, causal, dropout)
    if k.size(-2) > SHORT:
        return tiled_attention(q, k, v, bias, causal, dropout)
    if torch.is_grad_enabled():
        return short_attention(q, k, v, bias, causal, dropout)
    return (math_attention if q.dtype.itemsize < 4 else sdpa)(q, k, v, bias, causal, dropout)


KERNELS: dict[str, Kernel] = {"auto": auto, "sdpa": sdpa, "math": math_attention}
"""Interchangeable implementations of attention, by their names in a configuration."""


class Layout(Protocol):
    """How queries and keys lie in memory, and thereby which key a query may see."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q [..., h, T, d_k], k [..., h, S, d_k], v [..., h, S, d_v] -> [..., h, T, d_v]"""


@dataclass
class PaddedLayout:
    """A sentence per row of a rectangle: [B, h, T, d]."""

    kernel: Kernel
    bias: Tensor | None = None
    """[B, 1, 1, S], BLOCKED at padding; made once for all layers"""
    causal: bool = False
    """A query sees its own position and those before it."""

    @classmethod
    def from_padding(cls, pad: Tensor, dtype: torch.dtype, kernel: Kernel) -> Self:
        """The layout in which padding cannot be attended to: pad [B, S]."""
        return cls(kernel, (pad * BLOCKED).to(dtype)[:, None, None, :])

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        return self.kernel(q, k, v, self.bias, self.causal, dropout)


@dataclass
class PaddedLayoutWithWeights(PaddedLayout):
    """The same, and keeps the attention weights."""

    weights: Tensor | None = None
    """[B, h, T, S] of the newest call"""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        self.weights = attention_weights(q, k, self.bias, self.causal)
        return apply_dropout(self.weights, dropout) @ v


@dataclass(frozen=True)
class Heads:
    """How many heads there are, and how wide each is."""

    n: int
    d_k: int
    d_v: int
    n_kv: int | None = None
    """Heads of keys and values, each shared by n / n_kv heads of queries; None: n"""

    @property
    def n_kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.n if self.n_kv is None else self.n_kv


class KeysValues(NamedTuple):
    """What queries attend to."""

    k: Tensor
    """[..., h, S, d_k]"""
    v: Tensor
    """[..., h, S, d_v]"""


class SelfAttention(nn.Module):
    """Queries, keys and values from one sequence."""

    def __init__(self, d_model: int, heads: Heads, dropout: float, *, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        n, n_kv = heads.n, heads.n_kv_heads
        self.qkv = Projections(d_model, (n * heads.d_k, n_kv * heads.d_k, n_kv * heads.d_v), bias=bias)
        self.out = Linear(heads.n * heads.d_v, d_model, bias)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """[..., T, D] -> [..., T, D]"""
        dropout = self.dropout if self.training else 0.0
        whole = attend_in_one(x, None, (self.qkv, None, self.out), self.heads, layout, dropout)
        if whole is not None:
            return whole
        q, k, v = self.qkv(x)
        q, k, v = split_heads(q, self.heads.n), *(split_heads(part, self.heads.n_kv_heads) for part in (k, v))
        return self.out(merge_heads(layout.attend(q, k, v, dropout)))


class CrossAttention(nn.Module):
    """Queries from one sequence, keys and values from another, which may be computed once and kept."""

    def __init__(self, d_model: int, heads: Heads, dropout: float, *, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.q = Linear(d_model, heads.n * heads.d_k, bias)
        self.kv = Projections(d_model, (heads.n_kv_heads * heads.d_k, heads.n_kv_heads * heads.d_v), bias=bias)
        self.out = Linear(heads.n * heads.d_v, d_model, bias)

    def keys_values(self, memory: Tensor) -> KeysValues:
        """[..., S, D] -> keys and values [..., h, S, d]"""
        k, v = self.kv(memory)
        return KeysValues(split_heads(k, self.heads.n_kv_heads), split_heads(v, self.heads.n_kv_heads))

    def forward(self, x: Tensor, memory: Tensor | KeysValues, layout: Layout) -> Tensor:
        """[..., T, D], memory [..., S, D] or its keys and values -> [..., T, D]"""
        dropout = self.dropout if self.training else 0.0
        if isinstance(memory, Tensor) and type(self).keys_values is CrossAttention.keys_values:
            whole = attend_in_one(x, memory, (self.q, self.kv, self.out), self.heads, layout, dropout)
            if whole is not None:
                return whole
        if isinstance(memory, Tensor):
            memory = self.keys_values(memory)
        q = split_heads(self.q(x), self.heads.n)
        return self.out(merge_heads(layout.attend(q, *memory, dropout)))


def attend_in_one(
    x: Tensor,
    memory: Tensor | None,
    maps: tuple[Linear | Projections, Projections | None, Linear],
    heads: Heads,
    layout: Layout,
    dropout: float,
) -> Tensor | None:
    """Attention of x [B, T, D] to memory [B, S, D], None for itself, with the linear maps around it: [B, T, D].

    None where it is more than plain linear maps around `short_attention`, or no plugin has them as one function.
    """
    if type(layout) is not PaddedLayout or layout.kernel is not auto or heads.n_kv_heads != heads.n:
        return None
    n_keys = (x if memory is None else memory).size(-2)
    if not x.is_cpu or n_keys > SHORT or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return None
    if not all(isinstance(module, Linear | Projections) and module.is_plain for module in maps if module):
        return None  # also of a module that a plugin has put in its place
    queries, keys_values, out = (module.weight_and_bias() if module else None for module in maps)
    assert queries
    assert out
    together = AttentionMaps(queries, keys_values, out, heads.n)
    return projected_attention(x, memory, together, layout.bias, layout.causal, dropout)


@contextmanager
def recording_weights(model: nn.Module) -> Iterator[Mapping[nn.Module, Tensor]]:
    """The attention weights [B, h, T, S] of the newest call, with padded sentences and inside the block, of each
    SelfAttention and CrossAttention of `model`."""
    recorded: dict[nn.Module, Tensor] = {}

    def give_weights(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        *inputs, layout = args
        assert isinstance(layout, PaddedLayout), "weights are recorded of padded sentences alone"
        return *inputs, PaddedLayoutWithWeights(layout.kernel, layout.bias, layout.causal)

    def take_weights(module: nn.Module, args: tuple[Any, ...], _: Tensor) -> None:
        recorded[module] = args[-1].weights.float()

    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, SelfAttention | CrossAttention):
                stack.callback(module.register_forward_pre_hook(give_weights).remove)
                stack.callback(module.register_forward_hook(take_weights).remove)
        yield recorded


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """[..., T, h * d] -> [..., h, T, d]"""
    return x.unflatten(-1, (n_heads, -1)).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """[..., h, T, d] -> [..., T, h * d]"""
    return x.transpose(-3, -2).flatten(-2)
