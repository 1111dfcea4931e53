"""Multi-head attention (section 3.2): projections here, and a layout that knows which position may see which.

All but the layout is blind to how sentences lie in memory: inputs are [..., T, D], heads are [..., h, T, d].
Shapes: B sentences, T queries, S keys, D = d_model, h heads, d_k and d_v per head.
"""

from __future__ import annotations

__all__ = [
    "KERNELS",
    "CrossAttention",
    "Heads",
    "KeysValues",
    "Layout",
    "Padded",
    "Projections",
    "Recording",
    "SelfAttention",
]

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s.backend import kernels
from s2s.nn.dropout import dropout as drop

if TYPE_CHECKING:
    from s2s.backend.linear import LinearMap

BLOCKED = -3e4
"""Added to the score of a position that may not be seen. Finite, so that a row with nothing to see gives no
NaN in any kernel; exp of it is exactly 0 in every precision, and fp16 can hold it."""

SHORT = 128
"""Keys up to which all weights of a sentence are held in training on a CPU"""

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor | None, bool, float], Tensor]
"""q [..., T, d_k], k [..., S, d_k], v [..., S, d_v], bias on the scores or causal (never both, as SDPA has it),
dropout -> [..., T, d_v]"""


def sdpa(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """torch's own choice among its kernels."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout, is_causal=causal)


def products(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """Equation 1, literally: it holds all [T, S] weights."""
    return drop(softmax(q, k, bias, causal), dropout) @ v


def softmax(q: Tensor, k: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
    """The weights of equation 1, [..., T, S]."""
    scores = (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)  # [..., T, S]
    if causal:
        bias = torch.full(scores.shape[-2:], BLOCKED, dtype=scores.dtype, device=scores.device).triu(1)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    return scores.softmax(-1)


def auto(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """`sdpa`, but `products` on a CPU for 16-bit numbers, and in training for short sentences.

    (One core, torch 2.13, forward and backward: in bf16 sdpa took 2 to 8 times as long from 8 to 256 symbols. In
    fp32 both are alike while MKL multiplies; while oneDNN does, sdpa took 19, 10, 5, 3 and 0.9 times as long for 16,
    32, 64, 128 and 256 symbols.) Without gradients, functions in C, since a translation must not depend on its
    neighbours: the last bits of torch's own depend on how much padding there is.
    """
    if _in_c(q, k, v, bias) and not causal and not dropout:
        padding = q.new_zeros(len(k), k.size(2)) if bias is None else bias[:, 0, 0]
        return kernels.attend_padded(q, k, v, padding)
    short = k.size(-2) <= SHORT and torch.is_grad_enabled()
    slow = q.device.type == "cpu" and (q.dtype.itemsize < 4 or short)
    return (products if slow else sdpa)(q, k, v, bias, causal, dropout)


def _in_c(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> bool:
    """Whether it is that of sentences, [B, h, T, d], with a bias at most for padding, [B, 1, 1, S]."""
    if torch.is_grad_enabled() or q.dim() != 4 or not kernels.serves(q, k, v):
        return False
    return bias is None or bias.shape == (len(k), 1, 1, k.size(2))


KERNELS: dict[str, Kernel] = {"auto": auto, "sdpa": sdpa, "math": products}
"""Interchangeable implementations of attention, by the name that a configuration gives them."""


class Layout(Protocol):
    """How queries and keys lie in memory, and thereby which key a query may see."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q [..., h, T, d_k], k [..., h, S, d_k], v [..., h, S, d_v] -> [..., h, T, d_v]"""
        ...


@dataclass
class Padded:
    """A sentence per row of a rectangle: [B, h, T, d]."""

    kernel: Kernel
    bias: Tensor | None = None
    """[B, 1, 1, S], BLOCKED at padding; made once for all layers"""
    causal: bool = False
    """A query sees its own position and those before it."""

    @classmethod
    def hiding(cls, pad: Tensor, dtype: torch.dtype, kernel: Kernel) -> Self:
        """The layout in which nobody sees padding: pad [B, S]."""
        return cls(kernel, (pad * BLOCKED).to(dtype)[:, None, None, :])

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        return self.kernel(q, k, v, self.bias, self.causal, dropout)


@dataclass
class Recording(Padded):
    """The same, and keeps how much each query looked at each key."""

    weights: Tensor | None = None
    """[B, h, T, S] of the newest call"""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        self.weights = softmax(q, k, self.bias, self.causal)
        return drop(self.weights, dropout) @ v


@dataclass(frozen=True)
class Heads:
    """How many heads there are, and how wide each is."""

    n: int
    d_k: int
    d_v: int


class KeysValues(NamedTuple):
    """What queries attend to."""

    k: Tensor
    """[..., h, S, d_k]"""
    v: Tensor
    """[..., h, S, d_v]"""


class Projections(nn.Linear):
    """Several linear maps of one input, as one product."""

    product: LinearMap | None = None
    """What multiplies instead; see `s2s.backend.linear`"""

    def __init__(self, d_in: int, parts: tuple[int, ...]) -> None:
        super().__init__(d_in, sum(parts))
        self.parts = parts

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """[O, D], [O]"""
        return self.weight, self.bias

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]  # one result for each part
        return (self.product or super().forward)(x).split(self.parts, dim=-1)


class SelfAttention(nn.Module):
    """Queries, keys and values from one sequence."""

    def __init__(self, d_model: int, heads: Heads, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = Projections(d_model, (heads.n * heads.d_k, heads.n * heads.d_k, heads.n * heads.d_v))
        self.out = nn.Linear(heads.n * heads.d_v, d_model)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """[..., T, D] -> [..., T, D]"""
        q, k, v = (split(part, self.heads.n) for part in self.qkv(x))
        return self.out(join(layout.attend(q, k, v, self.dropout if self.training else 0.0)))


class CrossAttention(nn.Module):
    """Queries from one sequence, keys and values from another, which may be computed once and kept."""

    def __init__(self, d_model: int, heads: Heads, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.q = nn.Linear(d_model, heads.n * heads.d_k)
        self.kv = Projections(d_model, (heads.n * heads.d_k, heads.n * heads.d_v))
        self.out = nn.Linear(heads.n * heads.d_v, d_model)

    def keys_values(self, memory: Tensor) -> KeysValues:
        """[..., S, D] -> keys and values [..., h, S, d]"""
        k, v = self.kv(memory)
        return KeysValues(split(k, self.heads.n), split(v, self.heads.n))

    def forward(self, x: Tensor, memory: KeysValues, layout: Layout) -> Tensor:
        """[..., T, D] -> [..., T, D]"""
        q = split(self.q(x), self.heads.n)
        return self.out(join(layout.attend(q, *memory, self.dropout if self.training else 0.0)))


def split(x: Tensor, n_heads: int) -> Tensor:
    """[..., T, h * d] -> [..., h, T, d]"""
    return x.unflatten(-1, (n_heads, -1)).transpose(-3, -2)


def join(x: Tensor) -> Tensor:
    """[..., h, T, d] -> [..., T, h * d]"""
    return x.transpose(-3, -2).flatten(-2)
