"""Decoding steps captured in CUDA graphs: all kernels of a step for the cost of one launch.

A graph reads and writes the memory with which it was captured. So a search's state lives in the graph's own buffers,
and is copied only when it comes from elsewhere: after its first token, when sentences join, when a buffer has grown.

Shapes: B sentences, K hypotheses.
"""

from __future__ import annotations

__all__ = ["CUDAGraphDecoding", "graph_decoding"]

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from s2s import State
from s2s.backend import GrowingState, bucket_size, device_of
from s2s.tensors import list_tensors, map_tensors

if TYPE_CHECKING:
    from s2s import Seq2Seq
    from s2s.backend import Capture

    Step = Callable[[Tensor, State], tuple[Tensor, State]]

MAX_GRAPHS = 32
"""Maximum number of graphs kept, each with buffers of its own; then the least recently used is discarded"""


def graph_decoding(model: Seq2Seq, capture: Capture | None = None) -> bool:
    """Capture a model's decoding steps, if its states support it; returns whether they do.

    Only one search at a time may then use the model.
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    with torch.no_grad():
        src = torch.zeros(1, 1, dtype=torch.long, device=device)
        state = model.start(model.encode(src, src > 0))
    if state.supports_capture:
        model.step = CUDAGraphDecoding(model.step, capture or device_of(device).capture)  # type: ignore[method-assign]
    return state.supports_capture


class CUDAGraphDecoding:
    """A `step` that is captured once per state shape; steps whose state does not support capture run eagerly."""

    def __init__(self, step: Step, capture: Capture) -> None:
        self.step, self.capture = step, capture
        self.graphs: OrderedDict[Any, StepGraph] = OrderedDict()

    def __call__(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V], which the next call overwrites."""
        prepared = _prepared(state)
        if prepared is None:
            return self.step(token, state)
        key = self._key(token, prepared)
        if key not in self.graphs:
            if len(self.graphs) == MAX_GRAPHS:
                self.graphs.popitem(last=False)
            self.graphs[key] = StepGraph.of(self.step, self.capture, token, prepared, n_rows=key[0])
        self.graphs.move_to_end(key)
        return self.graphs[key](token, prepared)

    def _key(self, token: Tensor, state: State) -> tuple[int, Any]:
        """A graph's rows and shape: that of the graph holding the state, unless it has over twice the rows needed."""
        n_rows, buffers = bucket_size(len(token), token.device), _buffers(state)
        shape = (type(state), token.size(1), token.dtype, *((t.shape[1:], t.dtype) for t in buffers))
        for key, graph in self.graphs.items():
            fits = len(token) <= key[0] <= 2 * n_rows
            if key[1] == shape and fits and _buffers(graph.state)[0].data_ptr() == buffers[0].data_ptr():
                return key
        return n_rows, shape


@dataclass
class StepGraph:
    """The graph of one shape."""

    token: Tensor
    """[B, K]"""
    state: State
    """The buffers that the graph reads and writes"""
    logits: Tensor
    """[B, K, V]"""
    replay: Callable[[], None]

    @classmethod
    def of(cls, step: Step, capture: Capture, token: Tensor, like: State, n_rows: int) -> StepGraph:
        """Capture the step for states of this shape with `n_rows` sentences."""
        roomy = lambda t: t.new_zeros(n_rows, *t.shape[1:])  # noqa: E731
        state = _with_tensors(like, map_tensors(roomy, _tensors(like)))
        if isinstance(state, GrowingState):
            state = state.at_capacity(token.size(1))
        static = roomy(token)

        def advance() -> Tensor:
            logits, after = step(static, state)
            for old, new in zip(_buffers(state), _buffers(after), strict=True):
                if new.data_ptr() != old.data_ptr():
                    old.copy_(new)
            return logits

        kind = token.device.type
        enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
        # Weights that autocast has cast and cached would be freed before the graph is replayed.
        with torch.autocast(kind, dtype, enabled=enabled, cache_enabled=False):
            replay, logits = capture(advance)
        return cls(static, state, logits, replay)

    def __call__(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B', K] -> logits [B', K, V], for B' <= B; the results of other rows are arbitrary."""
        n = len(token)
        self.token[:n].copy_(token)
        for buffer, value in zip(_buffers(self.state), _buffers(state), strict=True):
            if buffer.data_ptr() != value.data_ptr():
                buffer[:n].copy_(value)
        if isinstance(self.state, GrowingState):
            self.state.clear_rows(n)
        self.replay()
        after = _with_tensors(state, map_tensors(lambda t: t[:n], _tensors(self.state)))
        return self.logits[:n], after.after_step(token.size(1)) if isinstance(after, GrowingState) else after


def _prepared(state: State) -> State | None:
    """The state with room for one more token; None: its next step is not captured."""
    if isinstance(state, GrowingState):
        return state.prepare_capture()
    return state if state.supports_capture else None


def _tensors(state: State) -> Any:
    """All that a captured step reads and writes."""
    return state.buffers() if isinstance(state, GrowingState) else (state.sentence, state.hypothesis)


def _with_tensors(state: State, tensors: Any) -> State:
    """The same state with other tensors for those of `_tensors`."""
    if isinstance(state, GrowingState):
        return state.with_buffers(tensors)
    sentence, hypothesis = tensors
    return replace(state, sentence=sentence, hypothesis=hypothesis)


def _buffers(state: State) -> list[Tensor]:
    """The same as a list, in a constant order."""
    return list_tensors(_tensors(state))
