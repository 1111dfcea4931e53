"""The keys and values of the target tokens of a search, each written once and never moved.

The tokens of a sentence's hypotheses form a tree. Its nodes (a token's keys and values) lie in one buffer per layer, in
the order of their creation; a hypothesis is a path, the indices of its nodes. Reordering hypotheses reorders paths
alone: 8 bytes a token, where moving keys and values would take 4,096 in each layer of the base model.

Shapes: B sentences, K hypotheses, N room for nodes, L room for tokens, h heads.
"""

from __future__ import annotations

__all__ = ["CachedAttention", "KVCacheState", "empty_kv_cache"]

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.backend.cuda_graph import bucket_size
from s2s.backend.operators import TreePaths, extend_paths, reorder_paths, tree_attention
from s2s.model import State
from s2s.nn.attention import Heads, Kernel
from s2s.tensors import Tree, join_tensors, map_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class KVCacheState(State):
    """A state whose `hypothesis` is the paths [B, K, L], and whose `sentence` is the architecture's own.

    Like every state it is consumed by the step that it is given to, which writes into its buffers; `keep` and `join`
    write into them and into the sentence's tensors, which must be the state's own. Copying all of it whenever a
    sentence leaves took half of the time of decoding Multi30k, and a tenth whenever others join.
    """

    joins: ClassVar[bool] = True
    captures: ClassVar[bool] = True
    nodes: list[Tensor]
    """[B, N, h * (d_k + d_v)] for each layer"""
    length: Tensor
    """[B], tokens of each hypothesis; the rest of a path is arbitrary"""
    n_nodes: Tensor
    """[B], nodes in use"""
    max_length: int = 0
    """The greatest length, known without synchronising with the device"""
    max_nodes: int = 0
    """The greatest n_nodes"""
    n_spare: int = 0
    """Rows of the state's own memory behind the last one of nodes and sentence"""

    def keep(self, rows: Tensor) -> Self:
        """The state of the sentences `rows` [B'], in place; only those from the end that fill gaps are moved."""
        gaps = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        fillers, n_spare = rows[gaps], self.n_spare + len(self.length) - len(rows)
        if bool((fillers < len(rows)).any()):
            keep, n_spare = (lambda t: t.index_select(0, rows)), 0
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
            max_length=int(length.max()) if len(rows) else 0,
            max_nodes=int(n_nodes.max()) if len(rows) else 0,
            n_spare=n_spare,
        )

    def join(self, other: Self) -> Self:
        """The sentences of both, these first, in place if there is room: the others' alone are copied."""
        n_spare, used = self.n_spare - len(other.length), [x[:, : other.max_nodes] for x in other.nodes]
        if n_spare < 0:
            n_spare = (len(self.length) + len(other.length)) // 4
        join = functools.partial(_join, behind=self.n_spare, n_spare=n_spare)
        nodes, sentence = join_tensors((self.nodes, self.sentence), (used, other.sentence), join)
        return replace(
            self,
            sentence=sentence,
            hypothesis=join_tensors(self.hypothesis, other.hypothesis),
            nodes=nodes,
            length=torch.cat([self.length, other.length]),
            n_nodes=torch.cat([self.n_nodes, other.n_nodes]),
            max_length=max(self.max_length, other.max_length),
            max_nodes=max(self.max_nodes, other.max_nodes),
            n_spare=n_spare,
        )

    def reorder(self, parents: Tensor) -> Self:
        """Hypothesis k of sentence b continues hypothesis parents[b, k]."""
        return replace(self, hypothesis=reorder_paths(self.hypothesis, parents))

    def extend(self) -> Self:
        """With a new node at the end of each path, whose keys and values attention will write."""
        state = self.reserve()
        beam = state.hypothesis.size(1)
        return replace(
            state,
            hypothesis=extend_paths(state.hypothesis, state.length, state.n_nodes),
            length=state.length + 1,
            n_nodes=state.n_nodes + beam,
            max_length=state.max_length + 1,
            max_nodes=state.max_nodes + beam,
        )

    def reserve(self, beam: int | None = None) -> Self:
        """With room for one more token of each hypothesis, or of `beam`. Full paths get room for 32 tokens and half as
        many as they have. Of full buffers unused nodes are removed first; then they get room for 32 tokens of each
        hypothesis, or for as many nodes as they have."""
        state, beam = self, beam or self.hypothesis.size(1)
        device = state.length.device
        if state.max_length == state.hypothesis.size(2):
            room = bucket_size(state.max_length + 32 + state.max_length // 2, device, least=32) - state.max_length
            state = replace(state, hypothesis=F.pad(state.hypothesis, (0, room)))
        if state.max_nodes + beam <= state.nodes[0].size(1):
            return state
        state = state._compacted()
        n_nodes = bucket_size(state.max_nodes + max(32 * beam, state.max_nodes), device, least=32)
        room = n_nodes - state.nodes[0].size(1)
        n, n_spare = len(state.length), state.n_spare
        return replace(state, nodes=[F.pad(_longer(x, n_spare), (0, 0, 0, room))[:n] for x in state.nodes])

    def buffers(self) -> Tree:
        """The nodes first, which stay where they are when hypotheses are reordered."""
        return self.nodes, self.sentence, self.hypothesis, self.length, self.n_nodes

    def with_buffers(self, buffers: Tree) -> Self:
        """The same state with other tensors for those of `buffers`."""
        nodes, sentence, hypothesis, length, n_nodes = buffers
        own = {"nodes": nodes, "sentence": sentence, "hypothesis": hypothesis, "length": length, "n_nodes": n_nodes}
        return replace(self, **own, n_spare=0)

    def prepare_capture(self) -> Self | None:
        """With room for one more token; None before the first one, whose beam of one is needed once only."""
        return self.reserve() if self.max_length else None

    def at_capacity(self, beam: int) -> Self:
        """As if `beam` more tokens filled paths and nodes."""
        return replace(self, max_length=self.hypothesis.size(2) - 1, max_nodes=self.nodes[0].size(1) - beam)

    def clear_rows(self, n: int) -> None:
        """Empty trees, so that new nodes and path ends lie inside the buffers."""
        self.length[n:].zero_()
        self.n_nodes[n:].zero_()

    def after_step(self, beam: int, n_steps: int = 1) -> Self:
        """With the greatest numbers of tokens and nodes after steps."""
        max_nodes = self.max_nodes + n_steps * beam
        return replace(self, max_length=self.max_length + n_steps, max_nodes=max_nodes)

    @property
    def n_free_steps(self) -> int:
        """Steps for which the buffers have room."""
        room = self.nodes[0].size(1) - self.max_nodes
        return min(self.hypothesis.size(2) - self.max_length, room // self.hypothesis.size(1))

    @property
    def paths(self) -> TreePaths:
        """The hypotheses' paths in their trees."""
        return TreePaths(self.hypothesis, self.length, self.n_nodes, self.max_length, self.max_nodes)

    def _compacted(self) -> Self:
        """Without the nodes on no path, in the same order, if they are half or more."""
        if not self.max_nodes:
            return self
        live = self.paths.visible.any(1)  # [B, max_nodes]
        most = int(live.sum(1).max())
        if 2 * most > self.max_nodes:
            return self
        stay = live.long().argsort(dim=1, descending=True, stable=True)[:, :most]  # [B, most]
        index = (live.cumsum(1) - 1).clamp(min=0)[:, None].expand(-1, self.hypothesis.size(1), -1)
        rows = torch.arange(len(stay), device=stay.device)[:, None]
        return replace(
            self,
            nodes=[x[rows, stay] for x in self.nodes],
            hypothesis=index.gather(2, self.hypothesis.clamp(max=self.max_nodes - 1)),
            n_nodes=live.sum(1),
            max_nodes=most,
            n_spare=0,
        )


def _longer(x: Tensor, n: int) -> Tensor:
    """x [B, ...] with the n rows of memory behind it: [B + n, ...]"""
    return x.as_strided((len(x) + n, *x.shape[1:]), x.stride())


def _join(x: Tensor, y: Tensor, behind: int, n_spare: int) -> Tensor:
    """`join_tensors` with `n_spare` rows behind the result; in place if those behind x are enough and y is no wider."""
    n, shapes = len(x) + len(y), zip(x.shape[1:], y.shape[1:], strict=True)
    is_dense = x.is_contiguous() and x.stride(0) == math.prod(x.shape[1:])  # a single row may be part of a wider one
    if len(y) + n_spare > behind or not is_dense or any(a < b for a, b in shapes):
        return F.pad(join_tensors(x, y), (0, 0) * (x.dim() - 1) + (0, n_spare))[:n]
    both = _longer(x, len(y))
    both[len(x) :].zero_()[tuple(map(slice, y.shape))] = y
    return both


def empty_kv_cache(sentence: Tree, n_sentences: int, layers: Sequence[Heads], like: Tensor) -> KVCacheState:
    """Before the first token: one empty path for each sentence, for layers with such heads; dtype as in `like`."""
    widths = [heads.of_keys * (heads.d_k + heads.d_v) for heads in layers]
    zeros = torch.zeros(n_sentences, dtype=torch.long, device=like.device)
    return KVCacheState(
        sentence=sentence,
        hypothesis=torch.zeros(n_sentences, 1, 0, dtype=torch.long, device=like.device),
        nodes=[like.new_empty(n_sentences, 0, width) for width in widths],
        length=zeros,
        n_nodes=zeros,
    )


@dataclass
class CachedAttention:
    """The layout of one layer in a decoding step: the newest token of each hypothesis attends to its own path.

    Its keys and values are written into the cache on the way, so that one layer serves training and decoding.
    """

    kernel: Kernel
    nodes: Tensor
    """[B, N, h * (d_k + d_v)]"""
    paths: TreePaths
    """Shared by all layers"""

    @classmethod
    def of_layers(cls, state: KVCacheState, kernel: Kernel) -> list[Self]:
        """The layout for each layer, of an `extend`ed state."""
        paths = state.paths
        return [cls(kernel, nodes, paths) for nodes in state.nodes]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q, k, v [B, h, K, d] -> [B, h, K, d_v]; the dimension K stands where a sentence has its positions."""
        return tree_attention(q, k, v, self.nodes, self.paths, self.kernel, dropout)
