"""The keys and values of the target tokens of a search, each written once and never moved.

The tokens of a sentence's hypotheses form a tree. Its nodes (a token's keys and values) lie in one buffer per layer, in
the order of their creation; a hypothesis is a path, the indices of its nodes. Reordering hypotheses reorders only
paths: 8 bytes per token, where moving keys and values would take 4,096 in each layer of the base model.

Shapes: B sentences, K hypotheses, N room for nodes, L room for tokens, h heads.
"""

from __future__ import annotations

__all__ = ["CachedAttention", "KVCacheState", "empty_kv_cache"]

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.backend.cuda_graph import bucket_size
from s2s.backend.growing_state import GrowingState
from s2s.backend.operators import Kernel, TreePaths, extend_paths, reorder_paths, tree_attention
from s2s.nn.spare_rows import RowSelector, append_rows, clear, with_spare_rows, zeros_with_spare
from s2s.tensors import Tree, join_tensors, map_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.nn.attention import Heads


@dataclass
class KVCacheState(GrowingState):
    """A state whose `hypothesis` is the paths [B, K, L], and whose `sentence` is the architecture's own.

    Like every state it is consumed by the step that receives it, which writes into its buffers or replaces them.
    `select` and `join` do the same with the sentence's tensors, which must be the state's own. Copying all of it
    whenever a sentence leaves took half of the time of decoding Multi30k; copying it whenever others join took a tenth.
    """

    supports_join: ClassVar[bool] = True
    nodes: list[Tensor]
    """[B, N, h * (d_k + d_v)] for each layer"""
    length: Tensor
    """[B], tokens of each hypothesis; the rest of a path is arbitrary"""
    n_nodes: Tensor
    """[B], nodes in use"""
    max_length: int = 0
    """The greatest length, known without synchronising with the device"""
    max_nodes: int = 0
    """Upper bound of n_nodes; nodes beyond it were never written"""
    n_spare: int = 0
    """Spare rows of the state's own memory after the last one of nodes and sentence"""

    def select(self, rows: Tensor) -> Self:
        """The state of the sentences `rows` [B'], in place; only sentences from the end are moved, to fill gaps."""
        selector = RowSelector(rows, self.n_nodes)
        return replace(
            self,
            sentence=map_tensors(selector.select_rows, self.sentence),
            hypothesis=self.hypothesis[rows],
            nodes=[selector.select_used(x) for x in self.nodes],
            length=self.length[rows],
            n_nodes=self.n_nodes[rows],
            max_length=int(self.length[rows].max()) if len(rows) else 0,
            max_nodes=self.max_nodes if len(rows) else 0,
            n_spare=self.n_spare + len(self.length) - len(rows) if selector.in_place else 0,
        )

    def join(self, other: Self) -> Self:
        """The sentences of both, these first; in place if there is room, so that only the others are copied."""
        n_others, n_used = len(other.length), other.max_nodes
        state, n_spare = self, self.n_spare - n_others
        if n_spare < 0 or n_used > self._node_room:
            n_spare = (len(self.length) + n_others) // 4
            state = self._compacted(n_spare + n_others, minimum=max(n_used, self._node_room))
        for i, (x, y) in enumerate(zip(state.nodes, other.nodes, strict=True)):
            state.nodes[i] = with_spare_rows(x, n_others)
            clear(state.nodes[i][len(x) :])[:, :n_used] = y[:, :n_used]
        join = functools.partial(append_rows, n_behind=self.n_spare, n_spare=n_spare)
        return replace(
            state,
            sentence=join_tensors(self.sentence, other.sentence, join),
            hypothesis=join_tensors(state.hypothesis, other.hypothesis),
            length=torch.cat([self.length, other.length]),
            n_nodes=torch.cat([state.n_nodes, other.n_nodes]),
            max_length=max(self.max_length, other.max_length),
            max_nodes=max(state.max_nodes, n_used),
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
        """With room for one more token of each hypothesis, or of `beam`: full paths grow by 32 tokens and half their
        length; full buffers lose dead nodes, and grow by 32 tokens of each hypothesis or half their nodes."""
        state, beam = self, beam or self.hypothesis.size(1)
        if state.max_length == state._path_room:
            room = bucket_size(state.max_length + 32 + state.max_length // 2, state.length.device, minimum=32)
            state = replace(state, hypothesis=F.pad(state.hypothesis, (0, room - state.max_length)))
        has_room = state.max_nodes + beam <= state._node_room
        return state if has_room else state._compacted(state.n_spare, beam)

    def buffers(self) -> Tree:
        """The nodes first, which stay where they are when hypotheses are reordered."""
        return self.nodes, self.sentence, self.hypothesis, self.length, self.n_nodes

    def with_buffers(self, buffers: Tree) -> Self:
        """The same state with other tensors for those of `buffers`."""
        nodes, sentence, hypothesis, length, n_nodes = buffers
        values = {"nodes": nodes, "sentence": sentence, "hypothesis": hypothesis, "length": length, "n_nodes": n_nodes}
        return replace(self, **values, n_spare=0)

    def prepare_capture(self) -> Self | None:
        """With room for one more token; None before the first one, whose beam of one occurs only once."""
        return self.reserve() if self.max_length else None

    def at_capacity(self, beam: int) -> Self:
        """As if `beam` more tokens filled paths and nodes."""
        return replace(self, max_length=self._path_room - 1, max_nodes=self._node_room - beam)

    def clear_rows(self, n: int) -> None:
        """Empty the trees from row `n` on, so that new nodes and path ends lie inside the buffers."""
        self.length[n:].zero_()
        self.n_nodes[n:].zero_()

    def after_step(self, beam: int, n_steps: int = 1) -> Self:
        """With `max_length` and `max_nodes` as they are after `n_steps` steps."""
        max_nodes = self.max_nodes + n_steps * beam
        return replace(self, max_length=self.max_length + n_steps, max_nodes=max_nodes)

    @property
    def n_free_steps(self) -> int:
        """Steps for which the buffers have room."""
        beam = self.hypothesis.size(1)
        return min(self._path_room - self.max_length, (self._node_room - self.max_nodes) // beam)

    @property
    def paths(self) -> TreePaths:
        """The hypotheses' paths in their trees."""
        return TreePaths(self.hypothesis, self.length, self.n_nodes, self.max_length, self.max_nodes)

    @property
    def _node_room(self) -> int:
        """N, the nodes that fit into the buffers."""
        return self.nodes[0].size(1)

    @property
    def _path_room(self) -> int:
        """L, the tokens that fit into the paths."""
        return self.hypothesis.size(2)

    def _compacted(self, n_spare: int, beam: int = 0, minimum: int = 0) -> Self:
        """With new buffers for at least `minimum` nodes, without nodes on no path; the others keep their order."""
        if not self.max_nodes:
            room = max(minimum, bucket_size(32 * beam, self.length.device, minimum=32))
            nodes = [zeros_with_spare(x, n_spare, room, x.size(2)) for x in self.nodes]
            return replace(self, nodes=nodes, n_spare=n_spare)
        live = self.paths.visible.any(1)  # [B, max_nodes]
        new_index = F.pad(live.cumsum(1) - 1, (0, 1)).clamp(min=0)  # [B, max_nodes + 1]
        n_nodes = live.sum(1)
        max_nodes = int(n_nodes.max())
        room = max(minimum, bucket_size(max_nodes + max(32 * beam, max_nodes // 2), live.device, minimum=32))
        row, node = live.nonzero(as_tuple=True)
        for i, x in enumerate(self.nodes):  # the old ones are freed one by one
            kept = x.flatten(0, 1).index_select(0, row * x.size(1) + node)
            self.nodes[i] = zeros_with_spare(x, n_spare, room, x.size(2))
            self.nodes[i].flatten(0, 1).index_copy_(0, row * room + new_index[row, node], kept)
        paths = self.hypothesis.clamp(
            max=self.max_nodes
        )  # after a path's end, indices are arbitrary: any new one will do
        paths = new_index[:, None].expand(-1, paths.size(1), -1).gather(2, paths)
        return replace(self, hypothesis=paths, n_nodes=n_nodes, max_nodes=max_nodes, n_spare=n_spare)


def empty_kv_cache(sentence: Tree, n_sentences: int, layers: Sequence[Heads], like: Tensor) -> KVCacheState:
    """The state before the first token: one empty path per sentence, for layers with these heads; dtype of `like`."""
    widths = [heads.n_kv_heads * (heads.d_k + heads.d_v) for heads in layers]
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

    Its keys and values are first written into the cache, so that one layer serves training and decoding.
    """

    kernel: Kernel
    nodes: Tensor
    """[B, N, h * (d_k + d_v)]"""
    paths: TreePaths
    """Shared by all layers"""

    @classmethod
    def for_layers(cls, state: KVCacheState, kernel: Kernel) -> list[Self]:
        """The layout for each layer, of an `extend`ed state."""
        paths = state.paths
        return [cls(kernel, nodes, paths) for nodes in state.nodes]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q, k, v [B, h, K, d] -> [B, h, K, d_v]; the dimension K takes the place of a sentence's positions."""
        return tree_attention(q, k, v, self.nodes, self.paths, self.kernel, dropout)
