"""Attention without gradients; see `s2s.backend.operators.attention`.

Shapes: B sentences, T queries, S keys, K hypotheses, N nodes of a sentence's tree, h heads.
"""

from __future__ import annotations

__all__ = ["accepts_padded_attention", "accepts_tree_attention", "padded_attention", "tree_attention"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s_cpu.library import call

if TYPE_CHECKING:
    from s2s.backend import operators


def padded_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """A query's result has the same bits however many keys with a bias of BLOCKED follow."""
    (n_sentences, n_heads, n_queries, d_k), (n_keys, d_v) = q.shape, v.shape[2:]
    bias = q.new_zeros(n_sentences, n_keys) if bias is None else bias[:, 0, 0].contiguous()
    inputs = [x if x.stride(3) == 1 else x.contiguous() for x in (q, k, v)]
    strides = torch.tensor([x.stride()[:3] for x in inputs])
    out = q.new_empty(n_sentences, n_queries, n_heads, d_v)
    sizes = (n_sentences, n_heads, n_queries, n_keys, d_k, d_v)
    call("s2s_padded_attention", *inputs, *strides, bias, *sizes, d_k**-0.5, None, out)
    return out.transpose(1, 2)


def accepts_padded_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> bool:
    """No gradient, [B, h, T, d], and at most a padding bias [B, 1, 1, S]."""
    del v
    if torch.is_grad_enabled() or q.dim() != 4:
        return False
    return bias is None or bias.shape == (len(k), 1, 1, k.size(2))


def accepts_tree_attention(*given: object) -> bool:
    """Without dropout."""
    return not given[-1]


def tree_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    nodes: Tensor,
    paths: operators.TreePaths,
    kernel: object,  # noqa: ARG001  the C function is the kernel
    dropout: float,  # noqa: ARG001  is 0
) -> Tensor:
    """Reads only the nodes of each path, instead of all nodes with a bias."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # [B, K, h, d]
    n_sentences, beam, n_heads, d_k = q.shape
    out = torch.empty_like(v, memory_format=torch.contiguous_format)
    (q, q_stride), (k, k_stride), (v, v_stride) = (_rows(x) for x in (q, k, v))
    sizes = (n_sentences, beam, nodes.size(1), paths.path.size(2), n_heads, d_k, v.size(3))
    strides = (q_stride, k_stride, v_stride)
    call("s2s_tree_attention", q, k, v, *strides, nodes, paths.path, paths.length, *sizes, d_k**-0.5, None, out)
    return out.transpose(1, 2)


def _rows(x: Tensor) -> tuple[Tensor, int]:
    """x [B, K, h, d] with rows b * K + k a constant number of floats apart; and that number."""
    n_sentences, beam, n_heads, width = x.shape
    stride = x.stride(1) if beam > 1 else x.stride(0)
    even = n_sentences == 1 or beam == 1 or x.stride(0) == beam * stride
    if even and x.stride(3) == 1 and (n_heads == 1 or x.stride(2) == width):
        return x, stride
    return x.contiguous(), n_heads * width
