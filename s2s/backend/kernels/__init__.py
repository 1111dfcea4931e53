"""What decoding does to rows of floats on a CPU, in C, compiled once by the machine's own compiler.

Each function has a twin in torch, which runs on other devices and types, and where nothing can be compiled; the tests
hold the two equal. S2S_KERNELS says which: auto, torch, or native, which makes it an error that nothing compiles.
"""

from __future__ import annotations

__all__ = [
    "add_norm",
    "attend",
    "attend_padded",
    "description",
    "keep_memory",
    "quantized",
    "rescaled",
    "serves",
    "top",
]

import ctypes

import torch
from torch import Tensor, nn

from s2s.backend.kernels.library import call, library


def serves(*tensors: Tensor) -> bool:
    """Whether the functions here can take these: fp32 on a CPU, outside of torch.compile, and they are compiled."""
    if not all(t.dtype == torch.float and t.device.type == "cpu" for t in tensors) or torch.compiler.is_compiling():
        return False
    return library().functions is not None


def description() -> str:
    """Which functions are used, and why."""
    return library().why


def top(
    scores: Tensor, n: int, allowed: Tensor | None = None, banned: Tensor | None = None, *, normalize: bool = False
) -> tuple[Tensor, Tensor]:
    """The n largest of the last dimension and where they stand, of equal ones the first: [..., V] -> [..., n].

    Only those `allowed` [..., V], if given; those `banned` [N] keep their places, but are -inf. With `normalize`, less
    the log-sum-exp of all V.
    """
    scores = scores.contiguous()
    shape = (*scores.shape[:-1], n)
    values, ids = scores.new_empty(shape), torch.empty(shape, dtype=torch.long)
    sums = scores.new_empty(scores.shape[:-1]) if normalize else None
    allowed = None if allowed is None else allowed.expand(scores.shape).contiguous()
    n_rows = scores.numel() // max(scores.size(-1), 1)
    n_banned = 0 if banned is None else len(banned)
    call("s2s_top", scores, n_rows, scores.size(-1), n, allowed, banned, n_banned, sums, values, ids)
    return values, ids


def attend(q: Tensor, k: Tensor, v: Tensor, nodes: Tensor, path: Tensor, length: Tensor) -> Tensor:
    """The newest symbols' attention over their paths: q, k [B, K, h, d_k], v [B, K, h, d_v] -> [B, K, h, d_v].

    Their keys and values are written into nodes [B, N, h * (d_k + d_v)], where paths [B, K, T] end; length [B].
    """
    n_sentences, beam, n_heads, d_k = q.shape
    seen = torch.empty_like(v, memory_format=torch.contiguous_format)
    (q, q_stride), (k, k_stride), (v, v_stride) = (_rows(x) for x in (q, k, v))
    strides = (q_stride, k_stride, v_stride)
    sizes = (n_sentences, beam, nodes.size(1), path.size(2), n_heads, d_k, v.size(3))
    call("s2s_attend", q, k, v, *strides, nodes, path, length, *sizes, d_k**-0.5, seen)
    return seen


def attend_padded(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """q [B, h, T, d_k], k [B, h, S, d_k], v [B, h, S, d_v] -> [B, h, T, d_v]; bias [B, S] is added to the scores.

    A query's result has the same bits however many keys with a bias of BLOCKED follow.
    """
    (n_sentences, n_heads, n_queries, d_k), (n_keys, d_v) = q.shape, v.shape[2:]
    given = [x if x.stride(3) == 1 else x.contiguous() for x in (q, k, v)]
    strides = torch.tensor([x.stride()[:3] for x in given])
    seen = q.new_empty(n_sentences, n_queries, n_heads, d_v)
    sizes = (n_sentences, n_heads, n_queries, n_keys, d_k, d_v)
    call("s2s_attend_padded", *given, *strides, bias.contiguous(), *sizes, d_k**-0.5, seen)
    return seen.transpose(1, 2)


def add_norm(x: Tensor, y: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Layer normalisation of x + y, [..., D]; one pass in place of two over rows that fit into the cache."""
    x, y = x.contiguous(), y.contiguous()
    found, width = torch.empty_like(x), x.size(-1)
    call("s2s_add_norm", x, y, x.numel() // width, width, norm.weight, norm.bias, norm.eps, found)
    return found


def quantized(x: Tensor, zero: int) -> tuple[Tensor, Tensor]:
    """Rows as unsigned 8-bit numbers around `zero`, and what each is to be multiplied by: x [R, I] -> [R, I], [R]"""
    x = x.contiguous()
    rows, scale = torch.empty_like(x, dtype=torch.uint8), x.new_empty(len(x))
    call("s2s_quantized", x, *x.shape, x.size(1), zero, rows, scale)
    return rows, scale


def rescaled(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """x [R, O] times scale [R] plus bias [O], in place."""
    call("s2s_rescaled", x, *x.shape, scale, bias)
    return x


def keep_memory() -> None:
    """From now on, keep freed memory for what comes next instead of giving it back to the system.

    Else every step asks anew for its logits, page by page, which took a fifth of the time of decoding Multi30k.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library than GNU's
        return
    for parameter, value in ((-4, 0), (-1, 2**31 - 1), (-2, 2**26)):  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD
        mallopt(parameter, value)


def _rows(x: Tensor) -> tuple[Tensor, int]:
    """x [B, K, h, d] in such a form that row b * K + k begins that many floats after the one before."""
    n_sentences, beam, n_heads, width = x.shape
    stride = x.stride(1) if beam > 1 else x.stride(0)
    even = n_sentences == 1 or beam == 1 or x.stride(0) == beam * stride
    if even and x.stride(3) == 1 and (n_heads == 1 or x.stride(2) == width):
        return x, stride
    return x.contiguous(), n_heads * width
