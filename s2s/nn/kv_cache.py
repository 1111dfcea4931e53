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

from s2s.backend.growing_state import GrowingState, bucket_size
from s2s.backend.operators import Kernel, TreePaths, extend_paths, reorder_paths, tree_attention
from s2s.backend.operators.attention import tree_keys_values
from s2s.nn.node_buffers import NodeBuffers, RowSelection, append_rows
from s2s.tensors import Tree, join_tensors, map_tensors, select_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.nn.attention import Heads


@dataclass
class KVCacheState(GrowingState):
    """A state whose `hypothesis` is the paths [B, K, L], and whose `sentence` is the architecture's own.

    Like every state it is consumed by the step that receives it, which writes into its buffers or replaces them.
    `select` and `join` do the same with the sentence's tensors, which must be the state's own and have as many spare
    rows as the nodes. Copying all of it whenever a sentence leaves took half of the time of decoding Multi30k; copying
    it whenever others join took a tenth.
    """

    supports_join: ClassVar[bool] = True
    nodes: NodeBuffers
    """[B, N, h * (d_k + d_v)] for each layer"""
    length: Tensor
    """[B], tokens of each hypothesis; the rest of a path is arbitrary"""
    n_nodes: Tensor
    """[B], nodes in use"""
    max_length: int = 0
    """The greatest length, known without waiting for the device"""
    max_nodes: int = 0
    """Upper bound of n_nodes; nodes beyond it were never written"""
    mirror: Tensor | None = None
    """`length` on the host, where that is another tensor"""

    def select(self, rows: Tensor) -> Self:
        """The state of the sentences `rows` [B'], on the host, in place; only sentences from the end are moved, to fill
        gaps."""
        selection = RowSelection(rows)
        mirror = None if self.mirror is None else self.mirror[rows]
        hypothesis, length, n_nodes = select_rows((self.hypothesis, self.length, self.n_nodes), rows)
        return replace(
            self,
            sentence=map_tensors(selection, self.sentence),
            hypothesis=hypothesis,
            nodes=self.nodes.select(selection, self.n_nodes),
            length=length,
            n_nodes=n_nodes,
            max_length=int((length if mirror is None else mirror).max()) if len(rows) else 0,
            max_nodes=self.max_nodes if len(rows) else 0,
            mirror=mirror,
        )

    def join(self, other: Self) -> Self:
        """The sentences of both, these first; in place if there is room, so that only the others are copied."""
        n_others, n_behind = len(other.length), self.nodes.n_spare
        state = self
        if n_behind < n_others or other.max_nodes > self.nodes.room:
            n_spare = (len(self.length) + n_others) // 4 + n_others
            state = self._compacted(n_spare, minimum=max(other.max_nodes, self.nodes.room))
        nodes = state.nodes.join(other.nodes, other.max_nodes)
        append = functools.partial(append_rows, n_behind=n_behind, n_spare=nodes.n_spare)
        return replace(
            state,
            sentence=join_tensors(self.sentence, other.sentence, append),
            hypothesis=join_tensors(state.hypothesis, other.hypothesis),
            nodes=nodes,
            length=torch.cat([self.length, other.length]),
            n_nodes=torch.cat([state.n_nodes, other.n_nodes]),
            max_length=max(self.max_length, other.max_length),
            max_nodes=max(state.max_nodes, other.max_nodes),
            mirror=join_tensors(self.mirror, other.mirror),
        )

    def reorder(self, parents: Tensor) -> Self:
        """Hypothesis k of sentence b continues hypothesis parents[b, k]."""
        return replace(self, hypothesis=reorder_paths(self.hypothesis, parents))

    def extend(self) -> Self:
        """With a new node at the end of each path, whose keys and values attention will write."""
        state = self.reserve()
        beam = state.hypothesis.size(1)
        paths = extend_paths(state.hypothesis, state.length, state.n_nodes)
        state = replace(state, hypothesis=paths, length=state.length + 1, n_nodes=state.n_nodes + beam)
        return state.after_step(beam)

    def reserve(self, beam: int | None = None) -> Self:
        """With room for one more token of each hypothesis, or of `beam`: full paths grow by 32 tokens and half their
        length; full buffers lose dead nodes, and grow by 32 tokens of each hypothesis or half their nodes."""
        state, beam = self, beam or self.hypothesis.size(1)
        if state.max_length == state.hypothesis.size(2):
            room = bucket_size(state.max_length + 32 + state.max_length // 2, state.length.device, minimum=32)
            state = replace(state, hypothesis=F.pad(state.hypothesis, (0, room - state.max_length)))
        has_room = state.max_nodes + beam <= state.nodes.room
        return state if has_room else state._compacted(state.nodes.n_spare, beam)

    def buffers(self) -> Tree:
        """The nodes first, which stay where they are when hypotheses are reordered."""
        return list(self.nodes), self.sentence, self.hypothesis, self.length, self.n_nodes

    def with_buffers(self, buffers: Tree) -> Self:
        """The same state with other tensors for those of `buffers`, whose memory has no spare rows."""
        nodes, sentence, hypothesis, length, n_nodes = buffers
        parts = {"sentence": sentence, "hypothesis": hypothesis, "length": length, "n_nodes": n_nodes}
        return replace(self, nodes=NodeBuffers(nodes), **parts)

    def prepare_capture(self) -> Self | None:
        """With room for one more token; None before the first one, whose beam of one occurs only once."""
        return self.reserve() if self.max_length else None

    def at_capacity(self, beam: int) -> Self:
        """As if `beam` more tokens filled paths and nodes."""
        return replace(self, max_length=self.hypothesis.size(2) - 1, max_nodes=self.nodes.room - beam)

    def clear_rows(self, n: int) -> None:
        """Empty the trees from row `n` on, so that new nodes and path ends lie inside the buffers."""
        self.length[n:].zero_()
        self.n_nodes[n:].zero_()

    def after_step(self, beam: int, n_steps: int = 1) -> Self:
        """With what the host counts as it is after `n_steps` steps."""
        mirror = None if self.mirror is None else self.mirror + n_steps
        max_length, max_nodes = self.max_length + n_steps, self.max_nodes + n_steps * beam
        return replace(self, max_length=max_length, max_nodes=max_nodes, mirror=mirror)

    @property
    def n_free_steps(self) -> int:
        """Steps for which the buffers have room."""
        beam, n_tokens = self.hypothesis.shape[1:]
        return min(n_tokens - self.max_length, (self.nodes.room - self.max_nodes) // beam)

    @property
    def paths(self) -> TreePaths:
        """The hypotheses' paths in their trees."""
        return TreePaths(self.hypothesis, self.length, self.n_nodes, self.max_length, self.max_nodes)

    def _compacted(self, n_spare: int, beam: int = 0, minimum: int = 0) -> Self:
        """With new buffers for at least `minimum` nodes, without nodes on no path; the others keep their order."""
        live = self.paths.visible.any(1)  # [B, max_nodes]
        new_index = F.pad(live.cumsum(1) - 1, (0, 1)).clamp(min=0)  # [B, max_nodes + 1]
        n_nodes = live.sum(1)
        max_nodes, total = torch.stack([n_nodes.max(), n_nodes.sum()]).tolist() if self.max_nodes else (0, 0)
        room = max(minimum, bucket_size(max_nodes + max(32 * beam, max_nodes // 2), live.device, minimum=32))
        row, node = _positions(live, total)
        nodes = self.nodes.move(row, node, new_index[row, node], room, n_spare)
        paths = self.hypothesis.clamp(max=self.max_nodes)  # indices after a path's end are arbitrary: any will do
        paths = new_index[:, None].expand(-1, paths.size(1), -1).gather(2, paths)
        return replace(self, hypothesis=paths, nodes=nodes, n_nodes=n_nodes, max_nodes=max_nodes)


def _positions(mask: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Where a mask [B, N] is True, which is `n` times, in order: row and column, [n].

    `nonzero` would wait for the device to count them.
    """
    if mask.is_cpu:
        row, column = mask.nonzero(as_tuple=True)
        return row, column
    flat = mask.flatten()
    at = torch.where(flat, flat.cumsum(0) - 1, n)  # the others are written behind the last one
    found = at.new_zeros(n + 1).scatter_(0, at, torch.arange(len(flat), device=flat.device))[:n]
    return found // mask.size(1), found % mask.size(1)


def empty_kv_cache(sentence: Tree, n_sentences: int, layers: Sequence[Heads], like: Tensor) -> KVCacheState:
    """The state before the first token: one empty path per sentence, for layers with these heads; dtype of `like`."""
    widths = [heads.n_kv_heads * (heads.d_k + heads.d_v) for heads in layers]
    zeros = torch.zeros(n_sentences, dtype=torch.long, device=like.device)
    mirror = None if like.is_cpu else torch.zeros(n_sentences, dtype=torch.long)
    return KVCacheState(
        sentence=sentence,
        hypothesis=torch.zeros(n_sentences, 1, 0, dtype=torch.long, device=like.device),
        nodes=NodeBuffers(like.new_empty(n_sentences, 0, width) for width in widths),
        length=zeros,
        n_nodes=zeros,
        mirror=mirror,
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
    bias: Tensor | None = None
    """Added to the scores in place of `paths.bias`, [B, h, K, max_nodes]"""

    @classmethod
    def for_layers(cls, state: KVCacheState, kernel: Kernel) -> list[Self]:
        """The layout for each layer, of an `extend`ed state."""
        paths = state.paths
        return [cls(kernel, nodes, paths) for nodes in state.nodes]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q, k, v [B, h, K, d] -> [B, h, K, d_v]; the dimension K takes the place of a sentence's positions."""
        if self.bias is None:
            return tree_attention(q, k, v, self.nodes, self.paths, self.kernel, dropout)
        keys, values = self.keys_values(k, v)
        return self.kernel(q, keys, values, self.bias.to(q.dtype), False, dropout)

    def keys_values(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Those of all nodes, [B, h, max_nodes, d], after the newest k, v [B, h, K, d] were written into theirs"""
        return tree_keys_values(k, v, self.nodes, self.paths)
