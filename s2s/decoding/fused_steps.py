"""Several steps of a beam search as one call in C, with a model that is made of functions in C."""

from __future__ import annotations

__all__ = ["fused_steps"]

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from s2s.backend.kernels import Operator
from s2s.backend.kernels.beam_search_steps import HasFusedState, SearchArrays, SearchSettings, beam_search_steps
from s2s.decoding.hypotheses import FinishedHypotheses
from s2s.decoding.request import SentenceQueue

if TYPE_CHECKING:
    from s2s.decoding.beam_search import BeamSearch
    from s2s.decoding.hypotheses import Beams


def fused_steps(search: BeamSearch, batch: Beams) -> Beams | None:
    """The batch after steps that end as soon as a sentence is done.

    None where a step must be taken by itself: before every hypothesis is live, under a constraint, where the model is
    not made of functions in C. Sentences may join another queue than a plain one, or be cancelled, after every step, so
    it is one then.
    """
    model, queue, config = search.request.model, search.request.queue, search.config
    constrained = search.constraint is not None or batch.constraint_state is not None
    if constrained or batch.n_hypotheses != config.beam or not Operator.use_native:
        return None
    found = model.fused_state(batch.state) if isinstance(model, HasFusedState) else None
    if found is None:
        return None
    fused, state = found
    most = fused.n_steps if type(queue) is SentenceQueue else 1
    changed = (batch.token, batch.node, batch.score, batch.length, *batch.finished)
    arrays = SearchArrays(*(x.clone(memory_format=torch.contiguous_format) for x in changed))
    n_steps, new = beam_search_steps(fused, arrays, _settings(search, batch), search.history.n_nodes, most)
    search.history.add_steps(*new)
    return replace(
        batch,
        slack=batch.slack - n_steps,
        length=arrays.length,
        token=arrays.token,
        node=arrays.node,
        score=arrays.score,
        finished=FinishedHypotheses(*arrays[4:]),
        state=state.after_step(config.beam, n_steps),
    )


def _settings(search: BeamSearch, batch: Beams) -> SearchSettings:
    beam, stop, vocab = search.config.beam, search.config.stop, search.request.vocab
    return SearchSettings(
        eos=vocab.eos,
        n=2 * beam,
        counted=beam if stop == "first_k" else 2 * beam,
        wanted=min(search.request.nbest, beam) if stop == "best" else beam,
        first_k=stop == "first_k",
        normalize=search.normalize,
        banned=search.banned,
        limit=batch.limit,
        penalties=search.penalties,
    )
