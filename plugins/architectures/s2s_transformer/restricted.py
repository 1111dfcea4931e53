"""Self-attention restricted to a neighbourhood (section 4 and Table 1): r n d operations instead of n² d.

Shapes: B sentences, h heads, n blocks of c queries, W keys that a block attends to, w reach, T positions.
"""

from __future__ import annotations

__all__ = ["RestrictedLayout", "recent_layouts"]

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.nn import CachedAttention, PaddedLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.nn import KVCacheState

    Kernel = Callable[[Tensor, Tensor, Tensor, Tensor | None, bool, float], Tensor]

BLOCKED = -3e4
"""Finite, so that a row without allowed keys is not NaN; its exp is 0, and fp16 can represent it"""
BLOCK = 16
"""Minimum queries of a block: fewer are too little work for a product"""


class RestrictedLayout(PaddedLayout):
    """A position attends to those at a distance of at most `reach`, except padding and, if causal, later positions.

    Queries are processed in blocks, each with the keys that any of them attends to.
    """

    def __init__(self, kernel: Kernel, reach: int, pad: Tensor, *, causal: bool) -> None:
        """pad [B, T]"""
        self.kernel, self.reach, self.pad, self.only_past = kernel, reach, pad, causal
        self.causal = False  # `bias` includes causality

    @property
    def bias(self) -> Tensor:  # type: ignore[override]  # computed where all weights are needed at once
        """[B, 1, T, T]: with it, attention over all positions gives the same, except for padding far from any token,
        which then attends to all tokens instead of nothing."""
        position = torch.arange(self.pad.size(1), device=self.pad.device)
        allowed = self._allowed(position[:, None], position) & ~self.pad[:, None]  # [B, T, T]
        allowed = allowed | ~allowed.any(-1, keepdim=True) & ~self.pad[:, None]
        return blocking_bias(allowed, torch.float32)[:, None]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q, k [B, h, T, d_k], v [B, h, T, d_v] -> [B, h, T, d_v]"""
        n_sentences, length = self.pad.shape
        c, after = max(self.reach, BLOCK), 0 if self.only_past else self.reach
        n = -(-length // c)
        seen = self._windows(~self.pad[:, None, :, None], n, c, after).squeeze(-1)  # [B, 1, n, W]
        query, key = torch.arange(c, device=q.device)[:, None], torch.arange(c + self.reach + after, device=q.device)
        allowed = self._allowed(query, key - self.reach) & seen[..., None, :]  # [B, 1, n, c, W]
        queries = F.pad(q, (0, 0, 0, n * c - length)).unflatten(2, (n, c))
        k, v = (self._windows(x, n, c, after) for x in (k, v))  # [B, h, n, W, d]
        bias = blocking_bias(allowed, q.dtype).transpose(1, 2).flatten(0, 1)
        q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (queries, k, v))  # [B * n, h, ·, d]
        out = self.kernel(q, k, v, bias, False, dropout).unflatten(0, (n_sentences, n))
        return out.transpose(1, 2).flatten(2, 3)[:, :, :length]

    def _allowed(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether a query at one position may attend to a key at another."""
        near = (query - key).abs() <= self.reach
        return near & (key <= query) if self.only_past else near

    def _windows(self, x: Tensor, n: int, c: int, after: int) -> Tensor:
        """[B, h, T, d] -> [B, h, n, W, d], what each block of c positions attends to; zeros beyond both ends."""
        x = F.pad(x, (0, 0, self.reach, n * c - x.size(2) + after))
        return x.unfold(2, c + self.reach + after, c).transpose(3, 4)


def recent_layouts(state: KVCacheState, kernel: Kernel, reach: int) -> list[CachedAttention]:
    """The layout of each layer in a decoding step: the newest token attends to itself and `reach` tokens before it."""
    paths = state.paths
    n = min(reach + 1, paths.max_length)
    first = (paths.length - n).clamp(min=0)[:, None, None]
    index = (first + torch.arange(n, device=first.device)).expand(-1, paths.path.size(1), -1)
    paths = replace(paths, path=paths.path.gather(2, index), length=paths.length.clamp(max=n), max_length=n)
    return [CachedAttention(kernel, nodes, paths) for nodes in state.nodes]


def blocking_bias(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """A bias: 0 where allowed, elsewhere a score that leaves no weight."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(~allowed, BLOCKED)
