"""The state of decoding step by step.

Shapes: B sentences, K hypotheses, S source length, P positions, D = d_model.
"""

from __future__ import annotations

__all__ = ["GuidedMemory", "TransformerState", "first_state", "listed_logits"]

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from s2s import Memory
from s2s.backend import bucket_size, fused, linear
from s2s.nn import Guided, KeysValues, KVCacheState, empty_kv_cache
from s2s.tensors import map_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s_transformer.layers import DecoderLayer
    from s2s_transformer.positions import Positions


@dataclass
class GuidedMemory(Memory):
    """The encoder's output, of tokens or of words, and what the guide reads from it."""

    guided: Guided


@dataclass
class TransformerState(KVCacheState):
    """`sentence` holds each layer's keys and values of the source, a mask `seen` [B, S] that is True at tokens, the
    source that a guide refers to, and `Memory.listed`."""

    positions: Tensor = field(kw_only=True)
    """Vectors of the first positions, [P, D], which belong to no sentence"""
    guide: Tensor | None = field(kw_only=True)
    """[B, K, ·], the guide's states"""
    columns: fused.Columns | None = field(default=None, kw_only=True)
    """The logits that steps compute, with a shortlist on a CPU; those of all sentences, or of some more before"""
    n_of_columns: int = field(default=0, kw_only=True)
    """Sentences of which `columns` are"""

    @property
    def listed(self) -> Tensor | None:
        """[B, V], True at tokens of which a sentence's output may consist; None: all"""
        found: Tensor | None = self.sentence[3]
        return found

    def with_columns(self, logits_of: Callable[[Tensor], linear.LinearMap]) -> Self:
        """The state with `columns`; new ones when sentences have joined, or half of them have left."""
        listed = self.listed
        if listed is None or not listed.is_cpu:
            return self
        n, columns = len(listed), self.columns
        if columns is None or 2 * n < self.n_of_columns:
            ids = listed.any(0).nonzero()[:, 0]
            return replace(self, columns=fused.Columns(ids, logits_of(ids), listed), n_of_columns=n)
        return replace(self, columns=columns._replace(listed=listed))

    def with_positions(self, positions: Positions, n: int, max_len: int | None) -> Self:
        """The state with vectors of the first n positions, and of further ones, so that few steps compute any."""
        if n <= len(self.positions):
            return self
        positions.check(n)
        n_vectors = max(64, 2 * n) if max_len is None else min(2 * n, max_len)
        return replace(self, positions=positions.first(n_vectors, self.positions.dtype, self.positions.device))

    def select(self, rows: Tensor) -> Self:
        """The state of the sentences `rows` [B'], on the host."""
        guide = None if self.guide is None else self.guide.index_select(0, rows.to(self.guide.device))
        return replace(super().select(rows), guide=guide)

    def reorder(self, parents: Tensor) -> Self:
        """Hypothesis k of sentence b continues hypothesis parents[b, k]."""
        state = super().reorder(parents)
        if self.guide is None:
            return state
        index = parents[..., None].expand(-1, -1, self.guide.size(-1))
        return replace(state, guide=self.guide.gather(1, index))

    def buffers(self) -> Any:
        """Including those of the guide."""
        return super().buffers(), self.guide

    def with_buffers(self, buffers: Any) -> Self:
        """The same state with other tensors in place of those of `buffers`."""
        cache_buffers, guide = buffers
        return replace(super().with_buffers(cache_buffers), guide=guide)

    def join(self, other: Self) -> Self:
        """The sentences of both, these first; cut to the longest remaining source if the state is at least twice as
        wide, or if all rows are copied anyway."""
        guide = None if self.guide is None or other.guide is None else torch.cat([self.guide, other.guide])
        least = 1 if self.nodes.n_spare < len(other.length) else 2
        return replace(KVCacheState.join(self._cut(least), other), guide=guide, columns=None)

    def _cut(self, least: int) -> Self:
        """The state cut to the width of the longest source, if it is at least `least` times as wide."""
        sources, seen, guided, listed = self.sentence
        n = seen.size(1)
        longest = n and int((seen.any(0) * torch.arange(1, 1 + n, device=seen.device)).amax())
        longest = min(n, bucket_size(longest, seen.device, minimum=32))
        if least * longest > n:
            return self
        sources = [KeysValues(*(x[:, :, :longest] for x in source)) for source in sources]
        return replace(self, sentence=(sources, seen[:, :longest], guided, listed))


def first_state(decoder: Sequence[DecoderLayer], memory: Memory) -> TransformerState:
    """Each layer's keys and values of the source, once per sentence, and none of the target yet."""
    keys_values = (layer.keys_values(memory.hidden) for layer in decoder)
    sources = [KeysValues(*(x.contiguous() for x in of_layer)) for of_layer in keys_values if of_layer]
    like = sources[0].k if sources else memory.hidden
    guided = memory.guided if isinstance(memory, GuidedMemory) else None
    source = map_tensors(torch.clone, guided.source) if guided else None  # `select` modifies it
    heads = [layer.attention.heads for layer in decoder]
    listed = None if memory.listed is None else memory.listed.clone()
    state = empty_kv_cache((sources, ~memory.pad, source, listed), len(memory.pad), heads, like=like)
    positions, guide = memory.hidden.flatten(0, 1)[:0], guided.start if guided else None
    return TransformerState(**vars(state), positions=positions, guide=guide)


def listed_logits(logits: Tensor, listed: Tensor, ids: Tensor | None = None) -> Tensor:
    """Logits [B, K, V], or [B, K, U] of the tokens ids [U] -> [B, K, V], -inf where `listed` [B, V] is False"""
    if ids is None:
        return logits.masked_fill(~listed[:, None], -torch.inf)
    whole = logits.new_full((*logits.shape[:2], listed.size(1)), -torch.inf)
    return whole.index_copy_(2, ids, logits.masked_fill(~listed[:, None].index_select(2, ids), -torch.inf))
