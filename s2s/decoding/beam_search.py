"""Beam search over any model, one step for all sentences of a batch at once.

Shapes: B sentences being searched, K live hypotheses per sentence, V target vocabulary, n candidates, E finished
hypotheses.

Sentences do not affect each other, so an output does not depend on its batch.

A custom search may derive from `BeamSearch`. Its public methods are called in every mode, whether operators run as
implemented by plugins or as references, so overriding one of them replaces that part of the search everywhere.
Several steps run as one call where they can (see `fused_steps`), unless one of the methods that this replaces
(`REPLACED`) is overridden. So does the whole search of sentences without constraints of their own (see `admit_whole`).
"""

from __future__ import annotations

__all__ = ["BeamSearch", "fused_steps", "greedy"]

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.backend.operators import (
    merge_candidates,
    merge_finished,
    search_finished,
    top_k_log_probs,
    unfinished_candidates,
)
from s2s.backend.operators.operator import Operator
from s2s.decoding.beams import BeamRun, Beams, BeamSentence
from s2s.decoding.candidates import Candidates, FinishedHypotheses
from s2s.decoding.history import ROOT
from s2s.decoding.sentences import Hypothesis, SearchResult
from s2s.decoding.starting import start_sentences
from s2s.decoding.streaming import StreamingSearch
from s2s.errors import PluginError
from s2s.tensors import host_copies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.decoding.config import BeamConfig, GreedyConfig
    from s2s.decoding.contract import SearchRequest
    from s2s.decoding.sentences import SourceSentence


REPLACED = ("step", "allowed", "select", "expand", "finish", "unfinished", "is_done", "cannot_improve")
"""Methods of `BeamSearch` that `fused_steps` does not call"""
REPLACED_TOO = ("admit", "start", "steps", "without_done", "drop", "results", "result", "outputs")
"""Those that are not called for sentences that `admit_whole` takes either"""


def greedy(config: GreedyConfig) -> BeamSearch:
    """A beam of one that stops at the first eos: the most probable token at every step."""
    return BeamSearch(config.as_beam())


@Operator
def fused_steps(search: BeamSearch, batch: Beams, max_steps: int) -> Beams | None:
    """The batch after up to `max_steps` steps, stopping as soon as a sentence is done and others may take its place
    (`SentenceQueue.stop_threshold`); None: the step must be taken by `BeamSearch.step`.

    The search's state is modified in place. Sentences that are done come last, with what `BeamSearch.result` reads, but
    without model and constraint states. For the others, the result is bit-identical to that of single steps."""


class BeamSearch(StreamingSearch[Beams]):
    """The search of section 6.1; see `BeamConfig`."""

    def __init__(self, config: BeamConfig) -> None:
        self.config = config
        self._known_penalties = torch.empty(0)

    def begin(self, request: SearchRequest) -> BeamRun:
        """What the steps of this call share."""
        self.config.check_nbest(request.nbest)
        fused = all(getattr(type(self), name) is getattr(BeamSearch, name) for name in REPLACED)
        request = request.with_options(self.config)
        run = BeamRun(request, self.config.banned(request.vocab), fused=fused)
        run.whole = fused and all(getattr(type(self), name) is getattr(BeamSearch, name) for name in REPLACED_TOO)
        run.whole = run.whole and run.transforms.are_known and not (self.config.renormalize and request.constraint)
        return run

    def _prepare_limit(self, run: BeamRun, limit: int) -> None:
        self.extend_penalties(run, limit)

    def start(self, run: BeamRun, sentences: list[SourceSentence]) -> Beams:
        """One live hypothesis for each sentence, since several would be identical in the first step."""
        started, device = start_sentences(run, self.config, sentences), run.request.device
        self.extend_penalties(run, max(started.limits))
        zeros = torch.zeros(len(sentences), 1, dtype=torch.long, device=device)
        return Beams(
            run=run,
            sentences=[
                BeamSentence(s.index, len(s.ids), run.history.n_nodes, limit=limit)
                for s, limit in zip(sentences, started.limits, strict=True)
            ],
            slack=min(started.limits),
            length=zeros[:, 0],
            limit=torch.tensor(started.limits, device=device),
            token=started.token,
            node=zeros + ROOT,
            score=zeros.float(),
            finished=FinishedHypotheses.empty(len(sentences), self.config.beam, device),
            state=started.state,
            constraint_state=started.constraint_state,
            output=run.transforms.start(len(sentences), device),
        )

    def step(self, batch: Beams) -> Beams:
        """All live hypotheses extended by one token; those that end are finished, the best of the others stay live."""
        run = batch.run
        logits, state = run.request.model.step(batch.token, batch.state)  # [B, K, V]
        logits = run.transforms(logits, batch.output) if run.request.transforms else logits
        if self.config.renormalize:
            logits = self._without_forbidden(batch, logits)
        length = batch.length + 1
        finished, live = self.select(batch, logits, self.allowed(batch, batch.slack, logits.size(-1)), length)
        return Beams(
            run=run,
            sentences=batch.sentences,
            slack=batch.slack - 1,
            length=length,
            limit=batch.limit,
            token=live.token,
            node=run.history.add(live.token, live.log_prob, live.node),
            score=live.score,
            finished=finished,
            state=state if self.config.beam == 1 else state.reorder(live.parents),
            constraint_state=run.constraint.advance(batch.constraint_state, live.token, live.parents),
            output=run.transforms.advance(batch.output, live.token, live.parents),
        )

    def _without_forbidden(self, beams: Beams, logits: Tensor) -> Tensor:
        """Logits [B, K, V] that are -inf where the constraint forbids a token, which then has no probability."""
        allowed = beams.run.constraint.allowed(beams.constraint_state, logits.size(-1))
        return logits if allowed is None else logits.masked_fill(~allowed, -torch.inf)

    def steps(self, batch: Beams, max_steps: int) -> Beams:
        """The batch after one step, or after several run as one call."""
        fused = batch.run.fused and not (self.config.renormalize and batch.constraint_state is not None)
        return (fused_steps(self, batch, max_steps) if fused else None) or self.step(batch)

    def allowed(self, beams: Beams, slack: int, n_tokens: int) -> Tensor | None:
        """The tokens that may come next, [B, K, V]; None if all may. At its limit a hypothesis can only end."""
        allowed, request = beams.run.constraint.allowed(beams.constraint_state, n_tokens), beams.run.request
        if slack > 0:
            return allowed
        is_eos = torch.arange(n_tokens, device=request.device) == request.vocab.eos
        in_time = (beams.length < beams.limit)[:, None, None] | is_eos  # [B, 1, V]
        return in_time.expand(-1, beams.n_hypotheses, -1) if allowed is None else allowed & in_time

    def select(
        self, beams: Beams, logits: Tensor, allowed: Tensor | None, length: Tensor
    ) -> tuple[FinishedHypotheses, Candidates]:
        """The finished hypotheses, new ones of length [B], and the `beam` live ones: logits, allowed [B, K, V]."""
        candidates = self.expand(beams, logits, allowed)
        return self.finish(beams, candidates, length), self.unfinished(beams, candidates, self.config.beam)

    def expand(self, beams: Beams, logits: Tensor, allowed: Tensor | None) -> Candidates:
        """The best 2 * beam continuations, of which at most `beam` end, so `beam` others remain: logits [B, K, V]."""
        n, run, states = 2 * self.config.beam, beams.run, beams.constraint_state
        log_probs, tokens = top_k_log_probs(logits, n, run.banned, allowed, run.request.normalize)  # [B, K, n]
        allocation = run.constraint.allocation
        if not allocation or states is None or allowed is None:
            return Candidates(*merge_candidates(log_probs, tokens, beams.score, beams.node, n))
        log_probs, tokens = allocation.add_required(states, logits, allowed, log_probs, tokens, run.banned)
        every = Candidates(*merge_candidates(log_probs, tokens, beams.score, beams.node, log_probs[0].numel()))
        return allocation.select(states, every, n)

    def finish(self, beams: Beams, candidates: Candidates, length: Tensor) -> FinishedHypotheses:
        """The best finished hypotheses, including the candidates that end, which have length [B].

        With stop=first_k and heuristic only the first E candidates count; otherwise a beam of one would stop at an eos
        ranked second. With the other rules all candidates count, since better ones may still replace them.
        """
        (_, n), (_, n_finished) = candidates.token.shape, beams.finished.score.shape
        n_counted = min(n, n_finished) if self.config.stop in ("first_k", "heuristic") else n
        eos, penalties = beams.run.request.vocab.eos, beams.run.penalties
        finished = merge_finished(candidates, beams.finished, eos, n_counted, penalties, length)
        return FinishedHypotheses(*finished)

    def unfinished(self, beams: Beams, candidates: Candidates, n: int) -> Candidates:
        """The n candidates that stay live."""
        eos, allocation = beams.run.request.vocab.eos, beams.run.constraint.allocation
        if not allocation or beams.constraint_state is None:
            return Candidates(*unfinished_candidates(candidates, eos, n))
        known = Candidates(*host_copies(candidates))  # where `expand` has left them
        live = unfinished_candidates(known, eos, known.token.size(1))
        return allocation.select(beams.constraint_state, Candidates(*live), n)

    def penalty(self, length: Tensor) -> Tensor:
        """The penalties of outputs of `length` tokens [n], eos included -> [n]; computed once for many lengths.

        They rise or fall with the length, on which `cannot_improve` relies.
        """
        return torch.tensor([self.config.penalty(n) for n in length.tolist()], dtype=torch.double)

    def extend_penalties(self, run: BeamRun, limit: int) -> None:
        """Let the run have the penalties of outputs of up to `limit` tokens without eos."""
        if len(run.penalties) < limit + 3:  # `search_finished` reads up to index limit + 2
            known = self._known_penalties  # of earlier calls; another thread may put fewer there
            if len(known) < limit + 3:
                self._known_penalties = known = self._penalties(2 * limit + 3)
            run.penalties = known.to(run.request.device)

    def _penalties(self, n: int) -> Tensor:
        """The penalties of outputs of 0 to n - 1 tokens, in fp32: [n]; raises PluginError for numbers that are none.

        No output has 0 tokens, as eos counts: that is as one of 1. They are rounded from fp64, since a power in fp32
        has other last bits at the end of a table than within it.
        """
        length = torch.arange(n, dtype=torch.double).clamp(min=1)
        penalties, what = self.penalty(length), f"{type(self).__name__}.penalty"
        if not isinstance(penalties, Tensor) or penalties.shape != length.shape:
            shape = list(penalties.shape) if isinstance(penalties, Tensor) else type(penalties).__name__
            raise PluginError(f"{what}: expected a tensor of as many penalties as lengths, [{n}], got {shape}")
        if not (penalties >= 0).all():
            raise PluginError(f"{what}: expected positive numbers, got {penalties.min().item():g}")
        return penalties.float().contiguous()  # as functions in C read them

    def is_done(self, batch: Beams) -> Tensor:
        """Which sentences are finished: [B]"""
        return self.cannot_improve(batch, batch.score, batch.finished.score)

    def cannot_improve(self, beams: Beams, live: Tensor, finished: Tensor) -> Tensor:
        """Whether no live hypothesis can change the results: live scores [B, K], best first, finished [B, E] -> [B]

        A hypothesis loses log-probability with every token. So the best score that it can reach is its current
        log-probability over the larger of the penalties of the next length and the maximum length.
        """
        if self.config.stop == "first_k":
            return (finished[:, -1] > -torch.inf) | (live[:, 0] == -torch.inf)
        if self.config.stop == "heuristic":  # the penalty of the present length is the only one that counts
            before = beams.length - 1
            return search_finished(live, finished, before, before, beams.run.penalties, finished.size(1))
        n = min(beams.run.request.nbest, finished.size(1)) if self.config.stop == "best" else finished.size(1)
        return search_finished(live, finished, beams.length, beams.limit, beams.run.penalties, n)

    def drop(self, batch: Beams, done: Tensor) -> Beams | None:
        """The sentences that are not `done` [B], on the host; None if there are none."""
        remaining = super().drop(batch, done)
        if remaining is not None and not batch.run.waiting:
            batch.run.history.drop_before(min(sentence.first_node for sentence in remaining.sentences))
        if remaining is not None and remaining.slack <= 0:  # those at their limit have left
            remaining = replace(remaining, slack=int((remaining.limit - remaining.length).min()))
        return remaining

    def results(self, batch: Beams, rows: Sequence[int]) -> list[SearchResult]:
        """The results of the finished sentences in these rows; all that they need comes to the host in one transfer."""
        finished = FinishedHypotheses(*batch.run.history.fetch(*batch.finished))
        return super().results(replace(batch, finished=finished), rows)

    def result(self, batch: Beams, row: int) -> SearchResult:
        """The best outputs of a finished sentence."""
        return SearchResult(batch.sentences[row].index, self.outputs(batch, row, batch.run.request.nbest))

    def outputs(self, batch: Beams, row: int, n: int) -> list[Hypothesis]:
        """The first n finished hypotheses of a sentence, or as many as there are."""
        scores, nodes, log_probs = (values[row, :n].tolist() for values in batch.finished)
        hypotheses = []
        for score, node, log_prob in zip(scores, nodes, log_probs, strict=True):
            if score > -torch.inf:
                tokens, before = batch.run.history.backtrace(node)
                hypotheses.append(batch.sentences[row].hypothesis(tokens, score, [*before, log_prob]))
        return hypotheses
