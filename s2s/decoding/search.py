"""Beam search over any model, one step for all sentences of a batch at once.

Shapes: B sentences still being searched, K live hypotheses per sentence, V target vocabulary, n candidates.

A sentence leaves the batch as soon as it is done, and nothing that is decided about it looks at another: an
output does not depend on the batch.
"""

from __future__ import annotations

__all__ = ["BeamSearch", "Beams", "greedy"]

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from s2s.decoding import BeamConfig, GreedyConfig, Hypothesis
from s2s.decoding.hypotheses import Hypotheses, pick, top
from s2s.decoding.penalties import PENALTIES
from s2s.errors import ConfigError
from s2s.model import Seq2Seq, State
from s2s.task import Constraint, Vocab


@dataclass(frozen=True)
class Beams:
    """All that is known of the sentences still being searched."""

    sentence: Tensor
    """[B], its place among the sources"""
    limit: Tensor
    """[B], most symbols of its output, without eos"""
    live: Hypotheses
    """[B, K], which go on"""
    ended: Hypotheses
    """[B, at most beam], the best that have ended"""
    state: State
    """The model's, of the live ones"""
    automaton: Tensor | None
    """[B, K, ·], the constraint's, of the live ones"""

    def keep(self, rows: Tensor) -> Self:
        """Those of the sentences `rows` [B']"""
        automaton = None if self.automaton is None else self.automaton[rows]
        sentence, limit, state = self.sentence[rows], self.limit[rows], self.state.keep(rows)
        return type(self)(sentence, limit, self.live.keep(rows), self.ended.keep(rows), state, automaton)


def greedy(config: GreedyConfig) -> BeamSearch:
    """A beam of one that stops when it ends: the most probable symbol at every step."""
    a, b, ban_unk = config.max_len_a, config.max_len_b, config.ban_unk
    return BeamSearch(BeamConfig(beam=1, alpha=0.0, stop="first_k", max_len_a=a, max_len_b=b, ban_unk=ban_unk))


class BeamSearch:
    """The `Search` of section 6.1; see `BeamConfig`."""

    def __init__(self, config: BeamConfig) -> None:
        self.config = config

    @torch.no_grad()
    def __call__(
        self,
        model: Seq2Seq,
        src: Tensor,
        pad: Tensor,
        vocab: Vocab,
        constraint: Constraint | None = None,
        nbest: int = 1,
    ) -> list[list[Hypothesis]]:
        """At most `nbest` outputs for each source, best first: src, pad [B, S]."""
        if not 1 <= nbest <= self.config.beam:
            beam = self.config.beam
            raise ConfigError(
                f"nbest={nbest} must lie between 1 and the beam, which is {beam}; "
                f"give search.beam={max(nbest, 1)}, after search=beam if the search is greedy"
            )
        unk = [vocab.unk] if self.config.ban_unk else []
        banned = torch.tensor([vocab.pad, vocab.bos, *unk], device=src.device)
        space = _Space(self.config, model, vocab, constraint, nbest, banned)
        outputs: list[list[Hypothesis]] = [[] for _ in range(src.size(0))]
        beams = space.start(src, pad)
        while len(beams.sentence):
            beams = space.grow(beams)
            over = space.over(beams)
            if over.any():
                done = over.nonzero()[:, 0]
                found = beams.ended.keep(done).finished(vocab.eos, nbest)
                for place, hypotheses in zip(beams.sentence[done].tolist(), found, strict=True):
                    outputs[place] = hypotheses
                beams = beams.keep((~over).nonzero()[:, 0])
        return outputs


@dataclass(frozen=True)
class _Space:
    """What one search moves in: what outputs there are, and what they are worth."""

    config: BeamConfig
    model: Seq2Seq
    vocab: Vocab
    constraint: Constraint | None
    nbest: int
    banned: Tensor
    """Symbols that no output holds"""

    def start(self, src: Tensor, pad: Tensor) -> Beams:
        """One live hypothesis for each sentence, since at the first step all would be the same."""
        empty = Hypotheses.empty(src.size(0), self.config.beam, self.vocab.bos, src.device)
        limit = self.limits(pad)
        return Beams(
            sentence=torch.arange(src.size(0), device=src.device),
            limit=limit,
            live=empty.best(1),
            ended=empty.without(empty.score == 0),
            state=self.model.start(self.model.encode(src, pad)),
            automaton=self.constraint.start(src, pad, limit) if self.constraint else None,
        )

    def limits(self, pad: Tensor) -> Tensor:
        """Most symbols of each output, from the length of its own source, without eos: pad [B, S] -> [B]"""
        n_symbols = (~pad).sum(1) - 1
        limits = (self.config.max_len_a * n_symbols.double()).long() + self.config.max_len_b
        return limits.clamp(min=1, max=self.model.max_len and self.model.max_len - 1)  # which counts eos

    def grow(self, beams: Beams) -> Beams:
        """All live hypotheses one symbol longer: what ends is put aside, the best of the others live on."""
        logits, state = self.model.step(beams.live.tokens[..., -1], beams.state)  # [B, K, V]
        log_probs, tokens = self.candidates(logits.float(), beams)  # [B, K, n]
        parents, longer = self.extend(beams.live, log_probs, tokens)  # [B, 2 * beam]
        ends = longer.tokens[..., -1] == self.vocab.eos
        ended = self.penalize(longer.without(~self.counts(ends)))
        unended = longer.without(ends)
        best = top(unended.score, self.config.beam)[1]  # at most `beam` have ended, so `beam` live ones remain
        live, parents = unended.select(best), parents.gather(1, best)
        return replace(
            beams,
            live=live,
            ended=beams.ended.join(ended).best(self.config.beam),
            state=state.select(parents),
            automaton=self.advance(beams.automaton, parents, live.tokens[..., -1]),
        )

    def candidates(self, logits: Tensor, beams: Beams) -> tuple[Tensor, Tensor]:
        """What each live hypothesis may go on with: logits [B, K, V] -> log-probabilities, symbols [B, K, n].

        Forbidden symbols keep their share of the probability: were it given to the others, an output that is
        forced to go on would score as if the model had wanted it.
        """
        log_probs = logits.log_softmax(-1)
        if self.constraint and beams.automaton is not None:
            allowed = self.constraint.allowed(beams.automaton)
            log_probs = log_probs.masked_fill(~allowed, -torch.inf)
        best, tokens = top(log_probs, 2 * self.config.beam + len(self.banned))  # as many as are banned to spare
        best = best.masked_fill(torch.isin(tokens, self.banned), -torch.inf)
        full = (beams.live.tokens.size(2) - 1 >= beams.limit)[:, None, None]  # not counting bos
        end = log_probs[..., self.vocab.eos, None]  # at the limit, the one way to go on
        best = torch.cat([best.masked_fill(full, -torch.inf), end.masked_fill(~full, -torch.inf)], dim=2)
        tokens = torch.cat([tokens, torch.full_like(end, self.vocab.eos, dtype=torch.long)], dim=2)
        return best.masked_fill(best.isnan(), -torch.inf), tokens  # NaN would rank above all

    def extend(self, live: Hypotheses, log_probs: Tensor, tokens: Tensor) -> tuple[Tensor, Hypotheses]:
        """The best 2 * beam continuations, and the hypothesis [B, 2 * beam] that each goes on from."""
        total = live.score[..., None] + log_probs  # [B, K, n]
        score, place = top(total.flatten(1), 2 * self.config.beam)
        parents = place // total.size(2)
        token, log_prob = (values.flatten(1).gather(1, place) for values in (tokens, log_probs))
        return parents, live.select(parents).extend(token, log_prob, score)

    def counts(self, ends: Tensor) -> Tensor:
        """Which of the candidates that end [B, 2 * beam] are outputs.

        Where the first to end are taken, one that is not among the best `beam` must not be, or a beam of one
        would stop at an eos that comes second. Otherwise it may as well be kept: a better one will beat it.
        """
        if self.config.stop != "first_k":
            return ends
        return ends & (torch.arange(ends.size(1), device=ends.device) < self.config.beam)

    def penalize(self, ended: Hypotheses) -> Hypotheses:
        """With the log-probability over the penalty as score; all are of one length."""
        length = torch.full_like(ended.score, ended.tokens.size(2) - 1)
        return replace(ended, score=ended.score / self.penalty(length))

    def penalty(self, length: Tensor) -> Tensor:
        """The length penalty of outputs of `length` symbols, counting eos."""
        return PENALTIES[self.config.length_penalty](length, self.config.alpha)

    def over(self, beams: Beams) -> Tensor:
        """Which sentences are done: [B]

        What goes on loses log-probability with every symbol. So it ends best if it loses nothing more, and at
        the length, between the next and the last, at which the penalty divides by most.
        """
        best_live = beams.live.score[:, 0]
        if self.config.stop == "first_k":
            return (beams.ended.score[:, -1] > -torch.inf) | (best_live == -torch.inf)
        soonest = torch.full_like(best_live, beams.live.tokens.size(2))
        latest = (beams.limit + 1).float()
        reachable = best_live / torch.maximum(self.penalty(soonest), self.penalty(latest))
        n = self.nbest if self.config.stop == "best" else self.config.beam
        return beams.ended.score[:, n - 1] >= reachable

    def advance(self, automaton: Tensor | None, parents: Tensor, tokens: Tensor) -> Tensor | None:
        """The constraint's states [B, K, ·] after `tokens`, which follow the hypotheses `parents` [B, K']"""
        if automaton is None or self.constraint is None:
            return None
        return self.constraint.advance(pick(automaton, parents), tokens)
