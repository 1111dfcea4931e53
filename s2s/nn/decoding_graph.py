"""Decoding steps recorded as CUDA graphs: the kernels of a step for the price of one launch.

A recording reads and writes where it did when it was made. So a search's state lives in the recording's own tensors,
and is copied only when it comes from elsewhere: after its first symbol, when sentences join, when a buffer has grown.

Shapes: B sentences, K hypotheses, N room for nodes, T room for symbols.
"""

from __future__ import annotations

__all__ = ["CUDAGraphDecoding", "graph_decoding"]

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from s2s.backend.cuda_graph import bucket_size, capture
from s2s.nn.kv_cache import KVCacheState
from s2s.tensors import Tree, map_tensors

if TYPE_CHECKING:
    from s2s.backend.cuda_graph import Capture
    from s2s.model import Seq2Seq, State

    Step = Callable[[Tensor, State], tuple[Tensor, State]]

MAX_GRAPHS = 32
"""Recordings kept, each with buffers of its own; of more, those that were not used for longest are made anew"""


def graph_decoding(model: Seq2Seq, capture: Capture = capture) -> None:
    """Let a model record its steps; only one search at a time may then use it."""
    model.step = CUDAGraphDecoding(model.step, capture)  # type: ignore[method-assign]


class CUDAGraphDecoding:
    """A `step` that records itself for each shape of state that comes; states without a tree run as they are."""

    def __init__(self, step: Step, capture: Capture) -> None:
        self.step, self.capture = step, capture
        self.graphs: OrderedDict[Any, StepGraph] = OrderedDict()

    def __call__(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V], which the next call overwrites."""
        if not isinstance(state, KVCacheState) or not state.max_length:  # one hypothesis, one step
            return self.step(token, state)
        state = state.reserve()
        key = self._key(token, state)
        if key not in self.graphs:
            if len(self.graphs) == MAX_GRAPHS:
                self.graphs.popitem(last=False)
            self.graphs[key] = StepGraph.of(self.step, self.capture, token, state, n_rows=key[0])
        self.graphs.move_to_end(key)
        return self.graphs[key](token, state)

    def _key(self, token: Tensor, state: KVCacheState) -> tuple[int, Any]:
        """The shape of a recording, its rows first: where the state is now, unless that is twice what it needs."""
        n_rows = bucket_size(len(token), token.device)
        shape = (token.size(1), token.dtype, *(t.shape[1:] for t in _tensors(state)))
        for key, recording in self.graphs.items():
            fits = len(token) <= key[0] <= 2 * n_rows
            if key[1] == shape and fits and state.nodes[0].data_ptr() == recording.state.nodes[0].data_ptr():
                return key
        return n_rows, shape


@dataclass
class StepGraph:
    """One shape's recording."""

    token: Tensor
    """[B, K]"""
    state: KVCacheState
    """What the recording reads and writes"""
    logits: Tensor
    """[B, K, V]"""
    replay: Callable[[], None]

    @classmethod
    def of(cls, step: Step, capture: Capture, token: Tensor, like: KVCacheState, n_rows: int) -> StepGraph:
        """Record the step for states of this shape, of `n_rows` sentences."""
        roomy = lambda t: t.new_zeros(n_rows, *t.shape[1:])  # noqa: E731
        n_positions, n_nodes, beam = like.hypothesis.size(2), like.nodes[0].size(1), token.size(1)
        # With these, every step takes the whole of the buffers, and finds room in them.
        state = replace(_mapped(roomy, like), max_length=n_positions - 1, max_nodes=n_nodes - beam)
        fixed = roomy(token)

        def advance() -> Tensor:
            logits, after = step(fixed, state)
            assert isinstance(after, KVCacheState)
            for old, new in zip(_tensors(state), _tensors(after), strict=True):
                if new.data_ptr() != old.data_ptr():
                    old.copy_(new)
            return logits

        kind = token.device.type
        enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
        # Weights that autocast has cast and kept would be gone when the recording is replayed.
        with torch.autocast(kind, dtype, enabled=enabled, cache_enabled=False):
            replay, logits = capture(advance)
        return cls(fixed, state, logits, replay)

    def __call__(self, token: Tensor, state: KVCacheState) -> tuple[Tensor, KVCacheState]:
        """token [B', K] -> logits [B', K, V], for B' <= B; other rows do what they will."""
        n = len(token)
        self.token[:n].copy_(token)
        for own, given in zip(_tensors(self.state), _tensors(state), strict=True):
            if own.data_ptr() != given.data_ptr():
                own[:n].copy_(given)
        self.state.length[n:].zero_()
        self.state.n_nodes[n:].zero_()
        self.replay()
        after = replace(
            state,
            **_parts(_mapped(lambda t: t[:n], self.state)),
            max_length=state.max_length + 1,
            max_nodes=state.max_nodes + token.size(1),
        )
        return self.logits[:n], after


def _parts(state: KVCacheState) -> dict[str, Tree]:
    """What of a state belongs to sentences."""
    names = ("sentence", "hypothesis", "nodes", "length", "n_nodes")
    return {name: getattr(state, name) for name in names}


def _mapped(function: Callable[[Tensor], Tensor], state: KVCacheState) -> KVCacheState:
    return replace(state, **map_tensors(function, _parts(state)))


def _tensors(state: KVCacheState) -> list[Tensor]:
    """All of them, in a constant order."""
    found: list[Tensor] = []
    map_tensors(lambda t: found.append(t) or t, _parts(state))  # type: ignore[func-returns-value]
    return found
