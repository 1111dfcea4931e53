"""Several steps of a beam search as one call, with a model that is made of functions in C.

With few sentences or narrow layers, the calls around a decoder's step take longer than the step. Single steps call the
same functions, so results have the same bits.

Shapes: B sentences, K hypotheses, E finished hypotheses, V tokens, P positions, D = d_model.
Before the first step K is 1, and then `beam`.
"""

from __future__ import annotations

__all__ = ["beam_search_steps", "model_struct", "point_to_tables", "run_steps"]

import ctypes
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from s2s.backend import fused, pad_to_beam
from s2s.decoding import FinishedHypotheses
from s2s_cpu.fused_layers import FusedDecoder
from s2s_cpu.library import call
from s2s_cpu.prepacked import PrepackedLinear
from s2s_cpu.rows import norm_struct
from s2s_cpu.search_constraint import SearchConstraint, search_constraint
from s2s_cpu.search_settings import beam_settings
from s2s_cpu.structs import SEARCH_WRITTEN, LayerStruct, ModelStruct, SearchStruct

if TYPE_CHECKING:
    from s2s.decoding import Beams, BeamSearch


class SearchArrays(NamedTuple):
    """What steps change in place. Afterwards sentences that are done come last. Of `token`, `node` and `score`, all
    [B, beam], the first B * K elements are in use, row by row."""

    sentence: Tensor
    """[B], its index before the steps"""
    n_source: Tensor
    """[B], tokens of its source"""
    limit: Tensor
    """[B], maximum number of tokens in its output"""
    token: Tensor
    """The newest tokens"""
    node: Tensor
    """Their history nodes"""
    score: Tensor
    """Log-probabilities, best first"""
    length: Tensor
    """[B], of live hypotheses"""
    finished_score: Tensor
    """[B, E]"""
    finished_node: Tensor
    """[B, E]"""
    finished_log_prob: Tensor
    """[B, E]"""
    parent: Tensor
    """[B, beam], the hypothesis that each extends, in the last step"""


class NewNodes(NamedTuple):
    """Nodes that steps added to the search history, all [. * beam]: tokens, log-probabilities, preceding nodes."""

    token: Tensor
    log_prob: Tensor
    parent: Tensor


def beam_search_steps(search: BeamSearch, batch: Beams, max_steps: int) -> Beams | None:
    """See `s2s.decoding.fused_steps`; None if there are too few tokens to fill the beam, a constraint selects the
    candidates that stay, or the model's decoder is not a function in C.

    With a constraint that is not an automaton it is one step, since the constraint must be called between steps.
    """
    run, beam, n_hypotheses = batch.run, search.config.beam, batch.n_hypotheses
    model = run.request.model
    if run.constraint.allocation or n_hypotheses * min(2 * beam, run.request.vocab.tgt) < beam:
        return None
    found = model.fused_state(batch.state, beam) if isinstance(model, fused.HasFusedState) else None
    if found is None:
        return None
    fused_state, state = found
    decoder, outputs = fused_state.model.decoder, [fused_state.model.output]
    if fused_state.columns:
        outputs.append(fused_state.columns.output)
    if not isinstance(decoder, FusedDecoder) or not all(isinstance(output, PrepackedLinear) for output in outputs):
        # Making room for a step may have moved nodes, so that the paths of `batch.state` are out of date.
        return search.step(replace(batch, state=state)) if n_hypotheses == beam else None  # else there are no nodes yet
    arrays = _arrays(batch, beam)
    constraint, request = search_constraint(batch, beam), run.request
    allowed, _, states = constraint
    max_steps = max_steps if allowed is None else 1
    settings = beam_settings(search.config, request.vocab.eos, request.nbest, normalize=request.normalize)
    settings.admission_threshold, settings.first_node = request.queue.stop_threshold, run.history.n_nodes
    settings.penalty = run.penalties.data_ptr()
    point_to_tables(settings, run)
    n_steps, new = run_steps(fused_state, arrays, n_hypotheses, settings, constraint, max_steps)
    run.history.add_steps(*new)
    if states is None:
        states = run.constraint.advance(batch.constraint_state, arrays.token, arrays.parent)
    return replace(
        batch,
        sentences=[batch.sentences[i] for i in arrays.sentence.tolist()],
        slack=batch.slack - n_steps,
        limit=arrays.limit,
        length=arrays.length,
        token=arrays.token,
        node=arrays.node,
        score=arrays.score,
        finished=FinishedHypotheses(arrays.finished_score, arrays.finished_node, arrays.finished_log_prob),
        state=state.after_step(n_hypotheses).after_step(beam, n_steps - 1),
        constraint_state=states,
    )


def _arrays(batch: Beams, beam: int) -> SearchArrays:
    """Copies, since steps write to them."""
    n_source = torch.tensor([sentence.n_source for sentence in batch.sentences])
    token, node, score = (_copy(pad_to_beam(x, beam)) for x in (batch.token, batch.node, batch.score))
    limit, length = _copy(batch.limit), _copy(batch.length)
    finished = FinishedHypotheses(*map(_copy, batch.finished))
    parent = torch.empty_like(token)
    return SearchArrays(torch.arange(len(n_source)), n_source, limit, token, node, score, length, *finished, parent)


def _copy(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)


def point_to_tables(settings: SearchStruct, run: Any) -> None:
    """Let a search read the banned tokens and the transforms of a run, which owns them."""
    settings.n_banned, settings.banned = len(run.banned), run.banned.data_ptr()
    if affine := run.transforms.affine:
        settings.logit_scale, settings.logit_bias = affine.scale.data_ptr(), affine.bias.data_ptr()


def run_steps(
    state: fused.FusedState,
    arrays: SearchArrays,
    n_hypotheses: int,
    search: SearchStruct,
    constraint: SearchConstraint,
    max_steps: int,
) -> tuple[int, NewNodes]:
    """The number of steps taken, and their nodes, numbered from the search's `first_node`. Each sentence begins with
    `n_hypotheses`.

    search: its settings, with the tables that they point to. Writes to it and to the arrays, and to the cache and
    n_nodes of the state, all of which must be contiguous.
    """
    max_steps = min(max_steps, state.n_steps)
    model, cache, size = state.model, state.cache, arrays.token.numel() * max_steps
    decoder, output = model.decoder, model.output
    assert isinstance(decoder, FusedDecoder)
    assert isinstance(output, PrepackedLinear)
    new = NewNodes(*(x.new_empty(size) for x in (arrays.node, arrays.score, arrays.token)))
    layers, step, _alive = decoder.structures(cache)
    step.K = n_hypotheses
    model_of = model_struct(model, layers)
    if state.positions is not None:
        model_of.positions = state.positions.data_ptr()
    if state.columns is not None:
        _point_to(state.columns, model_of)
    written = (*arrays, cache.path, cache.length, state.n_nodes, *new)
    assert all(x.is_contiguous() for x in (*written, cache.seen, *itertools.chain(*cache.sources)))
    assert (arrays.token.size(1), arrays.finished_score.size(1)) == (search.beam, search.E)
    for name, x in zip(SEARCH_WRITTEN, written, strict=True):
        setattr(search, name, x.data_ptr())
    search.allowed, search.automaton, _structure = constraint.pointers()
    call("s2s_beam_search_steps", *map(ctypes.byref, (model_of, step, search)), max_steps)
    return search.n_steps, NewNodes(*(x[: search.n_new] for x in new))


def model_struct(model: fused.FusedModel, layers: ctypes.Array[LayerStruct]) -> ModelStruct:
    """The structure of a model without positions, columns and guide, whose memory it points to."""
    output, table = model.output, model.embedding
    assert isinstance(output, PrepackedLinear)
    width, address = (output.n_inputs, None) if table is None else (table.size(1), table.data_ptr())
    changes = (model.scale, model.output_scale, model.zero_start, None, norm_struct(model.embedding_norm))
    return ModelStruct(ctypes.cast(layers, ctypes.c_void_p), len(layers), width, output.struct, address, *changes)


def _point_to(columns: fused.Columns, struct: ModelStruct) -> None:
    """Let a model compute the logits of these columns alone."""
    assert isinstance(columns.output, PrepackedLinear)
    assert columns.ids.is_contiguous()
    assert columns.listed.is_contiguous()
    struct.of_columns = columns.output.struct
    struct.columns, struct.listed = columns.ids.data_ptr(), columns.listed.data_ptr()
