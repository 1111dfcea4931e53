"""The target symbols of a search as keys and values, each written once and never moved.

The symbols that a sentence's hypotheses have held form a tree. Its nodes lie in one buffer per layer, in the order in
which they came; a hypothesis is a path, the numbers of its nodes. Reordering hypotheses reorders paths alone: 8 bytes
a symbol, where moving keys and values would take 4,096 in each layer of the base model.

Shapes: B sentences, K hypotheses, N room for nodes, T room for symbols, h heads.
"""

from __future__ import annotations

__all__ = ["CachedAttention", "KVCacheState", "empty_kv_cache"]

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.backend import kernels
from s2s.backend.cuda_graph import bucket_size
from s2s.backend.kernels.beam_search import grow_paths, select_paths
from s2s.model import State
from s2s.nn.attention import BLOCKED, Heads, Kernel, split
from s2s.tensors import Tree, join_tensors, map_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class KVCacheState(State):
    """A state whose `hypothesis` is the paths [B, K, T], and whose `sentence` is the architecture's own.

    Like every state it is used up by the step that it goes into, which writes into its buffers; `keep` writes into them
    and into what belongs to the sentence, which must be the state's own. Copying all of it whenever a sentence leaves
    took half of the time of decoding Multi30k.
    """

    joins: ClassVar[bool] = True
    nodes: list[Tensor]
    """[B, N, h * (d_k + d_v)] for each layer"""
    length: Tensor
    """[B], symbols of each hypothesis; the rest of a path means nothing"""
    n_nodes: Tensor
    """[B], nodes in use"""
    longest: int = 0
    """The greatest length, known without asking the device"""
    most: int = 0
    """The greatest n_nodes"""

    def keep(self, rows: Tensor) -> Self:
        """The state of the sentences `rows` [B'], where they are; only those from the end that fill gaps are moved."""
        gaps = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        fillers = rows[gaps]
        if not len(rows) or bool((fillers < len(rows)).any()):
            keep = lambda t: t.index_select(0, rows)  # noqa: E731
        else:
            keep = lambda t: t.index_copy_(0, gaps, t.index_select(0, fillers))[: len(rows)]  # noqa: E731
        length, n_nodes = self.length[rows], self.n_nodes[rows]
        return replace(
            self,
            sentence=map_tensors(keep, self.sentence),
            hypothesis=self.hypothesis[rows],
            nodes=[keep(x) for x in self.nodes],
            length=length,
            n_nodes=n_nodes,
            longest=int(length.max()) if len(rows) else 0,
            most=int(n_nodes.max()) if len(rows) else 0,
        )

    def join(self, other: Self) -> Self:
        """The sentences of both, these first."""
        return replace(
            super().join(other),
            nodes=join_tensors(self.nodes, other.nodes),
            length=torch.cat([self.length, other.length]),
            n_nodes=torch.cat([self.n_nodes, other.n_nodes]),
            longest=max(self.longest, other.longest),
            most=max(self.most, other.most),
        )

    def reorder(self, parents: Tensor) -> Self:
        """Hypothesis k of sentence b continues hypothesis parents[b, k]."""
        if not kernels.serves(*self.nodes):
            return super().reorder(parents)
        return replace(self, hypothesis=select_paths(self.hypothesis, parents))

    def grow(self) -> Self:
        """With one more node at the end of each path, whose keys and values attention will write."""
        state = self.with_room()
        path, beam = state.hypothesis, state.hypothesis.size(1)
        if kernels.serves(*self.nodes):
            path = grow_paths(path, state.length, state.n_nodes)
        else:
            newest = state.n_nodes[:, None] + torch.arange(beam, device=path.device)  # [B, K]
            end = state.length[:, None, None].expand(-1, beam, -1)
            path = path.scatter_(2, end, newest[..., None])
        return replace(
            state,
            hypothesis=path,
            length=state.length + 1,
            n_nodes=state.n_nodes + beam,
            longest=state.longest + 1,
            most=state.most + beam,
        )

    def with_room(self) -> Self:
        """For one more symbol of each hypothesis. Where the nodes fill their buffers, dead ones leave them first."""
        state, beam = self, self.hypothesis.size(1)
        device = state.length.device
        if state.longest == state.hypothesis.size(2):
            room = bucket_size(state.longest + 16 + state.longest // 2, device, least=32) - state.longest
            state = replace(state, hypothesis=F.pad(state.hypothesis, (0, room)))
        if state.most + beam <= state.nodes[0].size(1):
            return state
        state = state._compacted()
        room = bucket_size(state.most + max(16 * beam, state.most), device, least=32) - state.nodes[0].size(1)
        return replace(state, nodes=[F.pad(x, (0, 0, 0, room)) for x in state.nodes])

    def visible(self) -> Tensor:
        """[B, K, most], True at the nodes of each path"""
        path = self.hypothesis[..., : self.longest]
        after = torch.arange(self.longest, device=path.device) >= self.length[:, None, None]  # [B, 1, T]
        seen = torch.zeros(*path.shape[:2], self.most + 1, dtype=torch.bool, device=path.device)
        return seen.scatter_(2, path.masked_fill(after, self.most), True)[..., : self.most]

    def _compacted(self) -> Self:
        """Without the nodes on no path, in the same order, if they are more than half."""
        live = self.visible().any(1)  # [B, most]
        most = int(live.sum(1).max()) if self.most else 0
        if 2 * most > self.most or not self.most:
            return self
        stay = live.long().argsort(dim=1, descending=True, stable=True)[:, :most]  # [B, most']
        number = (live.cumsum(1) - 1).clamp(min=0)[:, None].expand(-1, self.hypothesis.size(1), -1)
        rows = torch.arange(len(stay), device=stay.device)[:, None]
        path = number.gather(2, self.hypothesis.clamp(max=self.most - 1))
        return replace(self, nodes=[x[rows, stay] for x in self.nodes], hypothesis=path, n_nodes=live.sum(1), most=most)


def empty_kv_cache(sentence: Tree, n_sentences: int, layers: Sequence[Heads], like: Tensor) -> KVCacheState:
    """Before the first symbol: one empty path for each sentence, for layers of such heads; types are as in `like`."""
    widths = [heads.n * (heads.d_k + heads.d_v) for heads in layers]
    count = torch.zeros(n_sentences, dtype=torch.long, device=like.device)
    return KVCacheState(
        sentence=sentence,
        hypothesis=torch.zeros(n_sentences, 1, 0, dtype=torch.long, device=like.device),
        nodes=[like.new_empty(n_sentences, 0, width) for width in widths],
        length=count,
        n_nodes=count,
    )


class CachedAttention:
    """The layout of one decoding step: the newest symbol of each hypothesis sees itself and all before it.

    Its keys and values are written into the state on the way, so that one layer serves training and decoding. Take
    `grow`n state to make one, and one of `layers` for each layer.
    """

    def __init__(self, state: KVCacheState, kernel: Kernel) -> None:
        self.state, self.kernel = state, kernel

    @functools.cached_property
    def rows(self) -> Tensor:
        """[B * K], where the newest symbols lie among all sentences' nodes."""
        state, (n_sentences, beam) = self.state, self.state.hypothesis.shape[:2]
        first = torch.arange(n_sentences, device=state.length.device) * state.nodes[0].size(1) + state.n_nodes - beam
        return (first[:, None] + torch.arange(beam, device=first.device)).flatten()

    @functools.cached_property
    def bias(self) -> Tensor:
        """[B, 1, K, most]"""
        return (~self.state.visible()[:, None] * BLOCKED).to(self.state.nodes[0].dtype)

    def layers(self) -> list[CachedAttentionLayer]:
        """The layout for each layer."""
        return [CachedAttentionLayer(self, nodes) for nodes in self.state.nodes]


@dataclass
class CachedAttentionLayer:
    """`CachedAttention`, in one layer."""

    step: CachedAttention
    nodes: Tensor
    """[B, N, h * (d_k + d_v)]"""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q, k, v [B, h, K, d] -> [B, h, K, d_v]; K stands where a sentence has its positions."""
        if kernels.serves(q, k, v, self.nodes) and not dropout:
            state = self.step.state
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            return kernels.attend(q, k, v, self.nodes, state.hypothesis, state.length).transpose(1, 2)
        newest = torch.cat([x.transpose(1, 2).flatten(2) for x in (k, v)], dim=2)  # [B, K, h * (d_k + d_v)]
        self.nodes.flatten(0, 1).index_copy_(0, self.step.rows, newest.flatten(0, 1))
        widths = (k.size(1) * k.size(3), v.size(1) * v.size(3))
        keys, values = (split(x, k.size(1)) for x in self.nodes[:, : self.step.state.most].split(widths, dim=2))
        return self.step.kernel(q, keys, values, self.step.bias, False, dropout)
