"""What one search moves in: how hypotheses grow, which outputs there are, and what they are worth.

Shapes: B sentences being searched, K live hypotheses per sentence, V target vocabulary, n candidates.
"""

from __future__ import annotations

__all__ = ["BeamSearch", "Space", "greedy"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.backend import kernels
from s2s.backend.kernels import beam_search as search
from s2s.decoding import BeamConfig, Found, GreedyConfig, Hypothesis
from s2s.decoding.allocation import build_allocation
from s2s.decoding.history import ROOT, History
from s2s.decoding.hypotheses import Beams, Candidates, FinishedHypotheses, Sentence
from s2s.decoding.lexical import bind_lexical
from s2s.decoding.limits import max_output_length
from s2s.decoding.penalties import PENALTIES
from s2s.decoding.streaming import BatchedSearch, Streaming, padded, staying
from s2s.decoding.topk import pick, top, topk_tokens
from s2s.errors import ConfigError
from s2s.model import Seq2Seq
from s2s.task import Constraint, Vocab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.decoding.queue import Queue, Source


@dataclass
class Space(Streaming[Beams]):
    """One search."""

    config: BeamConfig
    model: Seq2Seq
    vocab: Vocab
    device: torch.device
    constraint: Constraint | None
    nbest: int
    history: History = field(default_factory=History)

    def __post_init__(self) -> None:
        unk = [self.vocab.unk] if self.config.ban_unk else []
        self.banned = torch.tensor([self.vocab.pad, self.vocab.bos, *unk], device=self.device)
        self.penalties = torch.empty(0)  # of outputs of every length that may come, counting eos
        self.banks = build_allocation(self.constraint, normalize=not self.model.returns_log_probs)

    def start(self, sources: list[Source]) -> Beams:
        """One live hypothesis for each sentence, since at the first step all would be the same."""
        src, pad = padded(sources, self.vocab, self.device)
        limits = [max_output_length(self.config, self.model, len(source.ids) - 1) for source in sources]
        limit = torch.tensor(limits, device=self.device)
        if len(self.penalties) < max(limits) + 2:
            self.penalties = self.penalty(torch.arange(2 * max(limits) + 2, dtype=torch.float, device=self.device))
        none = torch.zeros(len(sources), 1, dtype=torch.long, device=self.device)
        constraint = bind_lexical(self.constraint, [source.wish for source in sources])
        return Beams(
            sentences=[Sentence(s.place, len(s.ids), self.history.n_added) for s in sources],
            slack=min(limits),
            length=none[:, 0],
            limit=limit,
            token=none + self.vocab.bos,
            node=none + ROOT,
            score=none.float(),
            ended=FinishedHypotheses.none(len(sources), self.config.beam, self.device),
            state=self.model.start(self.model.encode(src, pad)),
            automaton=constraint.start(src, pad, limit) if constraint else None,
        )

    def grow(self, beams: Beams) -> Beams:
        """All live hypotheses one symbol longer: what ends is put aside, the best of the others live on."""
        logits, state = self.model.step(beams.token, beams.state)  # [B, K, V]
        slack = beams.slack if beams.slack > 0 else int((beams.limit - beams.length).min())
        length = beams.length + 1
        ended, live = self.chosen(beams, logits, self.allowed(beams, slack, logits.size(-1)), length)
        return Beams(
            sentences=beams.sentences,
            slack=slack - 1,
            length=length,
            limit=beams.limit,
            token=live.token,
            node=self.history.add(live.token, live.log_prob, live.node),
            score=live.score,
            ended=ended,
            state=state if self.config.beam == 1 else state.reorder(live.parents),
            automaton=self.advance(beams.automaton, live.parents, live.token),
        )

    def chosen(
        self, beams: Beams, logits: Tensor, allowed: Tensor | None, length: Tensor
    ) -> tuple[FinishedHypotheses, Candidates]:
        """The best of all that has ended, now of length [B], and what lives on: logits, allowed [B, K, V]."""
        return self.settled(beams, self.extended(beams, logits, allowed), length)

    def settled(self, beams: Beams, longer: Candidates, length: Tensor) -> tuple[FinishedHypotheses, Candidates]:
        """The outputs that there are, with those that end now, of length [B], and the `beam` hypotheses that live on.

        At most `beam` of the candidates end, so `beam` live ones remain. Where the first to end are taken, one that is
        not among the best `beam` must not be, or a beam of one would stop at an eos that comes second. Otherwise it may
        as well be kept: a better one will beat it.
        """
        beam, eos = self.config.beam, self.vocab.eos
        counted = beam if self.config.stop == "first_k" else longer.token.size(1)
        if kernels.serves(longer.score) and not self.banks:
            found, live = search.settled(longer, beams.ended, beam, eos, counted, self.penalties, length)
            return FinishedHypotheses(*found), Candidates(*live)
        ends, ended = longer.token == eos, beams.ended
        if self.device.type != "cpu" or ends.any():  # a device that works ahead is not asked
            worth = longer.score / self.penalty(length.float())[:, None]
            counts = ends & (torch.arange(ends.size(1), device=ends.device) < counted)
            ended = ended.best_with(
                FinishedHypotheses(worth.masked_fill(~counts, -torch.inf), longer.node, longer.log_prob)
            )
            longer = longer.without(ends)
        return ended, self.best(beams, longer, beam)

    def extended(self, beams: Beams, logits: Tensor, allowed: Tensor | None) -> Candidates:
        """The best 2 * beam topk_tokens, of which at most `beam` end: logits [B, K, V]."""
        n = 2 * self.config.beam
        log_probs, tokens = topk_tokens(logits, n, self.banned, allowed, not self.model.returns_log_probs)  # [B, K, n]
        if not self.banks or beams.automaton is None or allowed is None:
            return self.joined(beams, log_probs, tokens, n)
        log_probs, tokens = self.banks.more(beams.automaton, logits, allowed, log_probs, tokens, self.banned)
        return self.best(beams, self.joined(beams, log_probs, tokens, log_probs[0].numel()), n)

    def joined(self, beams: Beams, log_probs: Tensor, tokens: Tensor, n: int) -> Candidates:
        """The best n of the candidates of all hypotheses of a sentence: log_probs, tokens [B, K, ·]"""
        if kernels.serves(log_probs, beams.score):
            return Candidates(*search.joined(log_probs, tokens, beams.score, beams.node, n))
        total = beams.score[..., None] + log_probs
        score, place = top(total.flatten(1), n)
        parents = place // total.size(2)
        token, log_prob = (values.flatten(1).gather(1, place) for values in (tokens, log_probs))
        return Candidates(score, parents, token, log_prob, beams.node.gather(1, parents))

    def best(self, beams: Beams, longer: Candidates, n: int) -> Candidates:
        """The first n, or the share of each bank."""
        if not self.banks or beams.automaton is None:
            return longer.best(n)
        return self.banks.best(beams.automaton, longer, n)

    def allowed(self, beams: Beams, slack: int, n_symbols: int) -> Tensor | None:
        """What may come next, [B, K, V]; None: anything. At the limit, the one way to go on is to end."""
        allowed = None
        if self.constraint and beams.automaton is not None:
            allowed = self.constraint.allowed(beams.automaton)
        if slack > 0:
            return allowed
        is_end = torch.arange(n_symbols, device=self.device) == self.vocab.eos
        in_time = (beams.length < beams.limit)[:, None, None] | is_end  # [B, 1, V]
        return in_time.expand(-1, beams.token.size(1), -1) if allowed is None else allowed & in_time

    def penalty(self, length: Tensor) -> Tensor:
        """The length penalty of outputs of `length` symbols, counting eos."""
        return PENALTIES[self.config.length_penalty](length, self.config.alpha)

    def over(self, beams: Beams) -> Tensor:
        """Which sentences are done: [B]"""
        if self.config.stop != "first_k" and kernels.serves(beams.ended.score):
            n = self.nbest if self.config.stop == "best" else self.config.beam
            return search.over(beams.score, beams.ended.score, beams.length, beams.limit, self.penalties, n)
        return self.is_over(beams, beams.score[:, 0], beams.ended.score)

    def is_over(self, beams: Beams, best_live: Tensor, ended: Tensor) -> Tensor:
        """Whether the outputs that there are, of such scores [B, E], are as good as the best live one [B] can get: [B]

        What goes on loses log-probability with every symbol. So it ends best if it loses nothing more, and at
        the length, between the next and the last, at which the penalty divides by most.
        """
        if self.config.stop == "first_k":
            return (ended[:, -1] > -torch.inf) | (best_live == -torch.inf)
        lengths = torch.stack([beams.length, beams.limit]) + 1.0  # the soonest and the latest end
        reachable = best_live / self.penalty(lengths).amax(0)
        n = min(self.nbest, ended.size(1)) if self.config.stop == "best" else ended.size(1)
        return ended[:, n - 1] >= reachable

    def advance(self, automaton: Tensor | None, parents: Tensor, tokens: Tensor) -> Tensor | None:
        """The constraint's states [B, K, ·] after `tokens`, which follow the hypotheses `parents` [B, K']"""
        if automaton is None or self.constraint is None:
            return None
        return self.constraint.advance(pick(automaton, parents), tokens)

    def without(self, beams: Beams, over: Tensor) -> Beams | None:
        """The sentences that go on; the last of them take the places of those that are `over` [B]."""
        rows = staying(over)
        if not len(rows):
            return None
        beams = beams.keep(rows)
        self.history.forget(min(sentence.begun for sentence in beams.sentences))
        return beams

    def found(self, beams: Beams, row: int) -> Found:
        """The best outputs of a sentence that is done."""
        return Found(beams.sentences[row].place, self.outputs(beams.ended, row, self.nbest))

    def outputs(self, ended: FinishedHypotheses, row: int, n: int) -> list[Hypothesis]:
        """The first n that have ended, as far as there are so many."""
        scores, nodes, log_probs = (values[row, :n].tolist() for values in ended)
        hypotheses = []
        for score, node, log_prob in zip(scores, nodes, log_probs, strict=True):
            if score > -torch.inf:
                tokens, before = self.history.symbols(node)
                hypotheses.append(Hypothesis(tokens, score, sum(before) + log_prob, [*before, log_prob]))
        return hypotheses


def greedy(config: GreedyConfig) -> BeamSearch:
    """A beam of one that stops when it ends: the most probable symbol at every step."""
    a, b, ban_unk = config.max_len_a, config.max_len_b, config.ban_unk
    return BeamSearch(BeamConfig(beam=1, alpha=0.0, stop="first_k", max_len_a=a, max_len_b=b, ban_unk=ban_unk))


class BeamSearch(BatchedSearch):
    """The `Search` of section 6.1; see `BeamConfig`."""

    def __init__(self, config: BeamConfig) -> None:
        self.config = config

    @torch.no_grad()
    def stream(
        self,
        model: Seq2Seq,
        queue: Queue,
        vocab: Vocab,
        device: torch.device,
        constraint: Constraint | None = None,
        nbest: int = 1,
    ) -> Iterator[list[Found]]:
        """What is found for the sentences of a queue, in the order in which their searches end."""
        if not 1 <= nbest <= self.config.beam:
            beam = self.config.beam
            raise ConfigError(
                f"nbest={nbest} must lie between 1 and the beam, which is {beam}; "
                f"give search.beam={max(nbest, 1)}, after search=beam if the search is greedy"
            )
        from s2s.decoding.diverse import DiverseBeamSearch

        kind = DiverseBeamSearch if self.config.num_beam_groups > 1 else Space
        yield from kind(self.config, model, vocab, device, constraint, nbest).run(queue)
