"""Steps of a beam search as one call, with a model that is made of functions in C.

With few sentences or narrow layers, the calls around a decoder's step take longer than the step. The functions are
those that single steps call, so results have the same bits.

Shapes: B sentences, K hypotheses, E finished hypotheses, V tokens, P positions, D = d_model.
"""

from __future__ import annotations

__all__ = ["FusedModel", "FusedState", "HasFusedState", "SearchArrays", "SearchSettings", "beam_search_steps"]

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from s2s.backend.kernels.decoder import FusedDecoder
from s2s.backend.kernels.library import call
from s2s.backend.kernels.linear import PrepackedLinear
from s2s.backend.kernels.structs import ModelStruct, SearchStruct

if TYPE_CHECKING:
    from s2s.backend.kernels.decoder import TreeCache
    from s2s.model import State


@dataclass(frozen=True)
class FusedModel:
    """The output map's product with a decoder of the sum of scale * embedding and a position's vector."""

    decoder: FusedDecoder
    embedding: Tensor
    """[V, D], fp32"""
    scale: float
    output: PrepackedLinear


class FusedState(NamedTuple):
    """Where a model's decoding stands."""

    model: FusedModel
    cache: TreeCache
    n_nodes: Tensor
    """[B], in use"""
    positions: Tensor | None
    """[P, D], of the first positions, if the model adds them"""
    n_steps: int
    """Steps for which there is room in all of it"""


@runtime_checkable
class HasFusedState(Protocol):
    """A model that may be made of functions in C."""

    def fused_state(self, state: State) -> tuple[FusedState, State] | None:
        """The same state for functions in C, and as it is after their steps, but for `State.after_step`: they write
        into its buffers. None: only `step` can compute this model's steps."""
        ...


class SearchArrays(NamedTuple):
    """What steps change in place."""

    token: Tensor
    """[B, K], the newest tokens"""
    node: Tensor
    """[B, K], their history nodes"""
    score: Tensor
    """[B, K], log-probabilities, best first"""
    length: Tensor
    """[B], of live hypotheses"""
    finished_score: Tensor
    """[B, E]"""
    finished_node: Tensor
    """[B, E]"""
    finished_log_prob: Tensor
    """[B, E]"""


class SearchSettings(NamedTuple):
    """What all steps share."""

    eos: int
    n: int
    """Candidates of a sentence"""
    counted: int
    """The first candidates, which alone may finish"""
    wanted: int
    """Finished hypotheses that no live one may still exceed when a sentence is done"""
    first_k: bool
    """Whether a sentence is done as soon as it has E finished hypotheses instead"""
    normalize: bool
    """Whether logits are normalised"""
    banned: Tensor
    """Tokens that no output has"""
    limit: Tensor
    """[B], most tokens of an output"""
    penalties: Tensor
    """Of outputs of 0, 1, 2, … tokens"""


class NewNodes(NamedTuple):
    """What was added to the search history, all [n_steps * B * K]: tokens, log-probabilities, nodes before."""

    token: Tensor
    log_prob: Tensor
    parent: Tensor


def beam_search_steps(
    state: FusedState, arrays: SearchArrays, settings: SearchSettings, first_node: int, most: int
) -> tuple[int, NewNodes]:
    """The number of steps taken, up to the first after which a sentence is done, and their nodes from `first_node` on.

    Writes into the arrays, and into the path, length and n_nodes of the state, all of which must be contiguous.
    """
    model, cache, size = state.model, state.cache, arrays.token.numel() * most
    new = NewNodes(torch.empty(size, dtype=torch.long), torch.empty(size), torch.empty(size, dtype=torch.long))
    step, _alive = model.decoder.structure(cache, model.embedding.size(1))
    layers = ctypes.cast(model.decoder.layers, ctypes.c_void_p)
    positions = None if state.positions is None else state.positions.data_ptr()
    given = ModelStruct(
        layers, len(model.decoder.layers), model.output.struct, model.embedding.data_ptr(), model.scale, positions
    )
    written = (*arrays, cache.path, cache.length, state.n_nodes, *new)
    assert all(x.is_contiguous() for x in written)
    numbers = (settings.eos, settings.n, settings.counted, settings.wanted, settings.first_k, settings.normalize)
    read = [settings.banned, settings.limit, settings.penalties]
    pointers = [x.data_ptr() for x in (*read, *written)]
    search = SearchStruct(arrays.finished_score.size(1), *numbers, len(settings.banned), first_node, *pointers)
    n_steps = ctypes.c_int64()
    call(
        "s2s_beam_search_steps",
        *map(ctypes.byref, (given, step, search)),
        min(most, state.n_steps),
        ctypes.byref(n_steps),
    )
    n_new = arrays.token.numel() * n_steps.value
    return n_steps.value, NewNodes(*(x[:n_new] for x in new))
