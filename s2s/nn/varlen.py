"""Attention within the sentences of a packed batch (varlen attention), as `s2s.data.packing` makes it.

Shapes: N positions of queries, S of keys, M sentences, L and K positions of a padded sentence, h heads.
"""

from __future__ import annotations

__all__ = ["FlashVarlen", "PaddedVarlen", "VarlenLayout"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.backend.device_types import device_of
from s2s.backend.operators import Kernel
from s2s.batch import SequenceOffsets
from s2s.nn.attention import PaddedLayout

if TYPE_CHECKING:
    from s2s.nn.attention import Layout


@dataclass
class PaddedVarlen:
    """Pads every sentence to a row of its own, and packs the result: for any device, type and kernel."""

    queries: SequenceOffsets
    keys: SequenceOffsets
    padded: PaddedLayout

    @classmethod
    def within_sentences(
        cls, queries: SequenceOffsets, keys: SequenceOffsets, dtype: torch.dtype, kernel: Kernel, *, causal: bool
    ) -> PaddedVarlen:
        """The layout in which a query attends to its own sentence: all of it, or, if causal, no later position."""
        if causal:  # padding ends a row, so no query attends to it
            return cls(queries, keys, PaddedLayout(kernel, causal=True))
        lengths = keys.cu_seqlens.diff()
        pad = torch.arange(keys.max_seqlen, device=lengths.device) >= lengths[:, None]  # [M, K]
        return cls(queries, keys, PaddedLayout.from_padding(pad, dtype, kernel))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q [h, N, d_k], k [h, S, d_k], v [h, S, d_v] -> [h, N, d_v]"""
        k, v = (_rows(x, self.keys) for x in (k, v))
        seen = self.padded.attend(_rows(q, self.queries), k, v, dropout)  # [M, h, L, d_v]
        return seen.transpose(1, 2).flatten(0, 1).index_select(0, self.queries.padded_index).transpose(0, 1)


def _rows(x: Tensor, offsets: SequenceOffsets) -> Tensor:
    """[h, N, d] -> [M, h, L, d], zero at padding."""
    packed = x.transpose(0, 1)  # [N, h, d]
    n_rows = offsets.cu_seqlens.numel() - 1
    rows = packed.new_zeros(n_rows * offsets.max_seqlen, *packed.shape[1:]).index_copy(0, offsets.padded_index, packed)
    return rows.unflatten(0, (n_rows, offsets.max_seqlen)).transpose(1, 2)


@dataclass
class FlashVarlen:
    """torch's varlen flash attention, which takes packed sentences: CUDA, 16 bits, no dropout."""

    queries: SequenceOffsets
    keys: SequenceOffsets
    causal: bool

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q [h, N, d], k, v [h, S, d] -> [h, N, d]"""
        from torch.nn.attention.varlen import varlen_attn

        assert dropout == 0, "varlen_attn has none"
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))  # [N, h, d]
        cu_seqlens = self.queries.cu_seqlens, self.keys.cu_seqlens
        window = (-1, 0) if self.causal else (-1, -1)
        seen = varlen_attn(q, k, v, *cu_seqlens, self.queries.max_seqlen, self.keys.max_seqlen, window_size=window)
        assert isinstance(seen, Tensor)
        return seen.transpose(0, 1)


@dataclass
class VarlenLayout:
    """Selects one of the two at each call, by device, type and dropout."""

    queries: SequenceOffsets
    keys: SequenceOffsets
    kernel: Kernel
    causal: bool = False

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q [h, N, d_k], k [h, S, d_k], v [h, S, d_v] -> [h, N, d_v]"""
        return self._layout(q, v, dropout).attend(q, k, v, dropout)

    def _layout(self, q: Tensor, v: Tensor, dropout: float) -> Layout:
        if device_of(q.device).has_varlen_attention(q.dtype) and dropout == 0 and q.size(-1) == v.size(-1):
            return FlashVarlen(self.queries, self.keys, self.causal)
        return PaddedVarlen.within_sentences(self.queries, self.keys, q.dtype, self.kernel, causal=self.causal)
