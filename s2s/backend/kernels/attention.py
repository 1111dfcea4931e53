"""Attention without gradients: of whole sentences, and of the newest tokens over a tree of tokens.

Shapes: B sentences, T queries, S keys, K hypotheses, N nodes of a sentence's tree, L tokens of a path, h heads.
"""

from __future__ import annotations

__all__ = ["BLOCKED", "TreePaths", "attention_weights", "padded_attention", "tree_attention"]

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.backend.kernels.library import call
from s2s.backend.kernels.operator import Operator

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


def _padded_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """Attention of padded sentences, neither causal nor with dropout.

    q [..., T, d_k], k [..., S, d_k], v [..., S, d_v] -> [..., T, d_v]; bias, added to the scores, is broadcast to
    [..., T, S]. (On one core with torch 2.13 and bf16, sdpa took 2 to 8 times as long as plain products.)
    """
    if q.is_cpu and q.dtype.itemsize < 4:
        return attention_weights(q, k, bias, causal=False) @ v
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def _native_padded_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same; a query has the same bits however many keys with a bias of BLOCKED follow."""
    (n_sentences, n_heads, n_queries, d_k), (n_keys, d_v) = q.shape, v.shape[2:]
    bias = q.new_zeros(n_sentences, n_keys) if bias is None else bias[:, 0, 0].contiguous()
    given = [x if x.stride(3) == 1 else x.contiguous() for x in (q, k, v)]
    strides = torch.tensor([x.stride()[:3] for x in given])
    out = q.new_empty(n_sentences, n_queries, n_heads, d_v)
    sizes = (n_sentences, n_heads, n_queries, n_keys, d_k, d_v)
    call("s2s_padded_attention", *given, *strides, bias, *sizes, d_k**-0.5, out)
    return out.transpose(1, 2)


def _accepts_padded_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> bool:
    """No gradient, [B, h, T, d], and a bias at most for padding, [B, 1, 1, S]."""
    del v
    if torch.is_grad_enabled() or q.dim() != 4:
        return False
    return bias is None or bias.shape == (len(k), 1, 1, k.size(2))


def _accepts_tree_attention(*given: object) -> bool:
    """No dropout."""
    return not given[-1]


@dataclass
class TreePaths:
    """Where hypotheses lie in the trees of their sentences, after their newest nodes were added."""

    path: Tensor
    """[B, K, L], the nodes of each hypothesis in order; of sentence b the first length[b] count"""
    length: Tensor
    """[B]"""
    n_nodes: Tensor
    """[B]; the newest K nodes are the hypotheses' newest tokens"""
    max_length: int
    max_nodes: int

    @functools.cached_property
    def newest(self) -> Tensor:
        """[B, K], the newest node of each hypothesis"""
        beam = self.path.size(1)
        return self.n_nodes[:, None] - beam + torch.arange(beam, device=self.path.device)

    @functools.cached_property
    def visible(self) -> Tensor:
        """[B, K, max_nodes], True at the nodes of each path"""
        path = self.path[..., : self.max_length]
        after = torch.arange(self.max_length, device=path.device) >= self.length[:, None, None]  # [B, 1, L]
        visible = torch.zeros(*path.shape[:2], self.max_nodes + 1, dtype=torch.bool, device=path.device)
        return visible.scatter_(2, path.masked_fill(after, self.max_nodes), True)[..., : self.max_nodes]

    @functools.cached_property
    def bias(self) -> Tensor:
        """[B, 1, K, max_nodes] in fp32, BLOCKED at nodes that are not on a hypothesis's path"""
        return ~self.visible[:, None] * BLOCKED


def _tree_attention(
    q: Tensor, k: Tensor, v: Tensor, nodes: Tensor, paths: TreePaths, kernel: Kernel, dropout: float
) -> Tensor:
    """Attention of each hypothesis's newest token over its path.

    q, k [B, h, K, d_k], v [B, h, K, d_v] of the newest tokens -> [B, h, K, d_v]. The keys and values are first written
    into nodes [B, N, h * (d_k + d_v)], where those of earlier tokens are. `kernel` attends to all nodes with a bias.
    """
    newest = torch.cat([x.transpose(1, 2).flatten(2) for x in (k, v)], dim=2)  # [B, K, h * (d_k + d_v)]
    first = torch.arange(len(nodes), device=nodes.device)[:, None] * nodes.size(1)
    nodes.flatten(0, 1).index_copy_(0, (first + paths.newest).flatten(), newest.flatten(0, 1))
    widths = (k.size(1) * k.size(3), v.size(1) * v.size(3))
    parts = nodes[:, : paths.max_nodes].split(widths, dim=2)
    keys, values = (x.unflatten(-1, (k.size(1), -1)).transpose(1, 2) for x in parts)  # [B, h, max_nodes, d]
    return kernel(q, keys, values, paths.bias.to(nodes.dtype), False, dropout)


def _native_tree_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    nodes: Tensor,
    paths: TreePaths,
    kernel: Kernel,  # noqa: ARG001  the C function is the kernel
    dropout: float,  # noqa: ARG001  is 0
) -> Tensor:
    """The same, reading the nodes of each path alone."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # [B, K, h, d]
    n_sentences, beam, n_heads, d_k = q.shape
    out = torch.empty_like(v, memory_format=torch.contiguous_format)
    (q, q_stride), (k, k_stride), (v, v_stride) = (_rows(x) for x in (q, k, v))
    sizes = (n_sentences, beam, nodes.size(1), paths.path.size(2), n_heads, d_k, v.size(3))
    strides = (q_stride, k_stride, v_stride)
    call("s2s_tree_attention", q, k, v, *strides, nodes, paths.path, paths.length, *sizes, d_k**-0.5, out)
    return out.transpose(1, 2)


def _rows(x: Tensor) -> tuple[Tensor, int]:
    """x [B, K, h, d] with rows a constant number of floats apart, row b * K + k; and that number."""
    n_sentences, beam, n_heads, width = x.shape
    stride = x.stride(1) if beam > 1 else x.stride(0)
    even = n_sentences == 1 or beam == 1 or x.stride(0) == beam * stride
    if even and x.stride(3) == 1 and (n_heads == 1 or x.stride(2) == width):
        return x, stride
    return x.contiguous(), n_heads * width


padded_attention = Operator(
    "padded_attention",
    reference=_padded_attention,
    native=_native_padded_attention,
    fp32=[0, 1, 2],
    accepts=_accepts_padded_attention,
)
tree_attention = Operator(
    "tree_attention",
    reference=_tree_attention,
    native=_native_tree_attention,
    fp32=[0, 1, 2, 3],
    accepts=_accepts_tree_attention,
)
