"""Attention over whole sentences, with and without gradients, and of the newest tokens over a tree of tokens.

Shapes: B sentences, T queries, S keys, K hypotheses, N nodes of a sentence's tree, L tokens of a path, h heads.
"""

from __future__ import annotations

__all__ = [
    "BLOCKED",
    "AttentionMaps",
    "TreePaths",
    "attention_weights",
    "math_attention",
    "padded_attention",
    "projected_attention",
    "short_attention",
    "tiled_attention",
    "tree_attention",
    "tree_keys_values",
]

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.backend.operators.operator import Operator
from s2s.backend.operators.rows import apply_dropout

if TYPE_CHECKING:
    from s2s.backend.linear import WeightAndBias

R = TypeVar("R")

BLOCKED = -3e4
"""Added to the score of a position that may not be seen. Finite, so that a row with nothing to see gives no
NaN in any kernel; exp of it is exactly 0 in every precision, and fp16 can hold it."""

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor | None, bool, float], Tensor]
"""q [..., T, d_k], k [..., S, d_k], v [..., S, d_v], bias on the scores or causal (never both, as SDPA has it),
dropout -> [..., T, d_v]"""


def attention_weights(q: Tensor, k: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
    """softmax(q k^T / sqrt(d_k)), [..., T, S]: the weights of equation 1."""
    scores = (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)  # [..., T, S]
    if causal:
        bias = torch.full(scores.shape[-2:], BLOCKED, dtype=scores.dtype, device=scores.device).triu(1)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    return scores.softmax(-1)


def math_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """Equation 1, literally: it holds all [T, S] weights."""
    return apply_dropout(attention_weights(q, k, bias, causal), dropout) @ v


short_attention = Operator(math_attention)
"""The same in training, for sentences of few keys on a CPU"""


class AttentionMaps(NamedTuple):
    """The linear maps before and after attention with as many heads of keys and values as of queries."""

    queries: WeightAndBias
    """To the queries of all heads, h d_k values; in self-attention to keys, h d_k, and values, h d_v, too"""
    keys_values: WeightAndBias | None
    """To those of what queries attend to; None: self-attention"""
    out: WeightAndBias
    """Of the h d_v values that the heads give"""
    n_heads: int


@Operator
def projected_attention(
    x: Tensor, memory: Tensor | None, maps: AttentionMaps, bias: Tensor | None, causal: bool, dropout: float
) -> Tensor | None:
    """`short_attention` with the linear maps before and after it.

    x [B, T, I], and what it attends to, memory [B, S, J], or None for itself -> [B, T, O]. None as the result: there is
    no such function, and each part must be computed by itself.
    """


@Operator
def tiled_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """The same for sentences of many keys on a CPU, of which implementations hold few weights at once.

    torch's own kernel, which holds few as well, has no dropout, and takes longer than plain products in 16 bits.
    """
    if dropout or q.dtype.itemsize < 4:
        return math_attention(q, k, v, bias, causal, dropout)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal)


@Operator
def padded_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """Attention of padded sentences, neither causal nor with dropout.

    q [..., T, d_k], k [..., S, d_k], v [..., S, d_v] -> [..., T, d_v]; bias, added to the scores, is broadcast to
    [..., T, S]. (On one core with torch 2.13 and bf16, sdpa took 2 to 8 times as long as plain products.)
    """
    if q.is_cpu and q.dtype.itemsize < 4:
        return attention_weights(q, k, bias, causal=False) @ v
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


class computed_once(Generic[R]):  # noqa: N801  used like functools.cached_property
    """That of Python 3.12 and later: the lock of 3.11's cannot be traced by torch.compile."""

    def __init__(self, function: Callable[[Any], R]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __get__(self, instance: object, owner: type | None = None) -> R:
        """Called once for an instance, whose attribute of the same name then hides this one."""
        value = self.function(instance)
        setattr(instance, self.function.__name__, value)
        return value


@dataclass
class TreePaths:
    """The paths of hypotheses in the trees of their sentences, after their newest nodes were added."""

    path: Tensor
    """[B, K, L], the nodes of each hypothesis in order; of sentence b the first length[b] count"""
    length: Tensor
    """[B]"""
    n_nodes: Tensor
    """[B]; the newest K nodes are the hypotheses' newest tokens"""
    max_length: int
    max_nodes: int

    @computed_once
    def newest(self) -> Tensor:
        """[B, K], the newest node of each hypothesis"""
        beam = self.path.size(1)
        return self.n_nodes[:, None] - beam + torch.arange(beam, device=self.path.device)

    @computed_once
    def visible(self) -> Tensor:
        """[B, K, max_nodes], True at the nodes of each path"""
        path = self.path[..., : self.max_length]
        after = torch.arange(self.max_length, device=path.device) >= self.length[:, None, None]  # [B, 1, L]
        visible = torch.zeros(*path.shape[:2], self.max_nodes + 1, dtype=torch.bool, device=path.device)
        return visible.scatter_(2, path.masked_fill(after, self.max_nodes), True)[..., : self.max_nodes]

    @computed_once
    def distance(self) -> Tensor:
        """[B, K, max_nodes], of each node of a path from its newest, at most 0; arbitrary at other nodes"""
        path = self.path[..., : self.max_length]
        at = torch.arange(path.size(-1), device=path.device)
        after = at >= self.length[:, None, None]
        position = path.new_zeros(*path.shape[:2], self.max_nodes + 1)
        position = position.scatter_(2, path.masked_fill(after, self.max_nodes), at.expand_as(path))[..., :-1]
        return position - self.length[:, None, None] + 1

    @computed_once
    def bias(self) -> Tensor:
        """[B, 1, K, max_nodes] in fp32, BLOCKED at nodes that are not on a hypothesis's path"""
        return ~self.visible[:, None] * BLOCKED


@Operator
def tree_attention(
    q: Tensor, k: Tensor, v: Tensor, nodes: Tensor, paths: TreePaths, kernel: Kernel, dropout: float
) -> Tensor:
    """Attention of each hypothesis's newest token over its path.

    q, k [B, h, K, d_k], v [B, h, K, d_v] of the newest tokens -> [B, h, K, d_v]. The keys and values are first written
    into nodes [B, N, h * (d_k + d_v)], which hold those of earlier tokens. `kernel` attends to all nodes with a bias.
    """
    keys, values = tree_keys_values(k, v, nodes, paths)
    return kernel(q, keys, values, paths.bias.to(nodes.dtype), False, dropout)


def tree_keys_values(k: Tensor, v: Tensor, nodes: Tensor, paths: TreePaths) -> tuple[Tensor, Tensor]:
    """The keys and values of all nodes, [B, h, max_nodes, d], after the newest k, v [B, h, K, d] were written."""
    newest = torch.cat([x.transpose(1, 2).flatten(2) for x in (k, v)], dim=2)  # [B, K, h * (d_k + d_v)]
    first = torch.arange(len(nodes), device=nodes.device)[:, None] * nodes.size(1)
    nodes.flatten(0, 1).index_copy_(0, (first + paths.newest).flatten(), newest.flatten(0, 1))
    widths = (k.size(1) * k.size(3), v.size(1) * v.size(3))
    parts = nodes[:, : paths.max_nodes].split(widths, dim=2)
    keys, values = (x.unflatten(-1, (k.size(1), -1)).transpose(1, 2) for x in parts)
    return keys, values
