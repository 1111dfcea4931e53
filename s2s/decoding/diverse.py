"""Diverse beam search, after Vijayakumar et al. (2018): groups that avoid what those before them have just chosen.

Each group is a beam of its own, with its own outputs and its own end. In each step they choose one after another, and a
symbol's log-probability counts for less the more hypotheses of earlier groups have just taken it. That steers the
choice alone: what a hypothesis is worth is what the model says. The end of an output is held against nobody.

Shapes: B sentences, K live hypotheses per sentence, those of a group side by side, V target vocabulary, M symbols that
earlier groups have taken.
"""

from __future__ import annotations

__all__ = ["DiverseBeamSearch"]

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.decoding import Found
from s2s.decoding.beam_search import Space
from s2s.decoding.hypotheses import Beams, Candidates, FinishedHypotheses
from s2s.decoding.topk import top, topk_tokens


class DiverseBeamSearch(Space):
    """A search in groups."""

    def groups(self) -> list[slice]:
        """Where each group's hypotheses stand."""
        width = self.config.width
        return [slice(begin, begin + width) for begin in range(0, self.config.beam, width)]

    def grow(self, beams: Beams) -> Beams:
        """All live hypotheses one symbol longer, but for those of groups that are done."""
        if beams.token.size(1) == 1:  # the first step: all groups go on from one hypothesis
            return super().grow(beams)
        done = self.done(beams).repeat_interleave(self.config.width, dim=1)  # [B, K]
        return super().grow(replace(beams, score=beams.score.masked_fill(done, -torch.inf)))

    def chosen(
        self, beams: Beams, logits: Tensor, allowed: Tensor | None, length: Tensor
    ) -> tuple[FinishedHypotheses, Candidates]:
        """The best of what has ended in each group, and what lives on there: logits, allowed [B, K, V], length [B]."""
        width, groups = self.config.width, self.groups()
        n = (len(groups) + 1) * width  # twice its width for the last group, whose every rival may have taken one
        log_probs, tokens = topk_tokens(logits, n, self.banned, allowed, not self.model.returns_log_probs)  # [B, K, n]
        if self.banks and beams.automaton is not None and allowed is not None:
            log_probs, tokens = self.banks.more(beams.automaton, logits, allowed, log_probs, tokens, self.banned)
        lives, endeds, taken = [], [], tokens[:, 0, :0]
        for group in groups:
            own = group if tokens.size(1) > 1 else slice(0, 1)
            longer = self.steered(beams, log_probs, tokens, taken, own)
            endeds.append(self.ended(beams, longer, group, length))
            live = self.best(beams, longer.without(longer.token == self.vocab.eos), width)
            lives.append(_filled(live._replace(score=_worth(beams, live)), width))
            taken = torch.cat([taken, lives[-1].token.masked_fill(lives[-1].score == -torch.inf, self.vocab.pad)], 1)
        ended = FinishedHypotheses(*(torch.cat(values, dim=1) for values in zip(*endeds, strict=True)))
        return ended, Candidates(*(torch.cat(values, dim=1) for values in zip(*lives, strict=True)))

    def steered(self, beams: Beams, log_probs: Tensor, tokens: Tensor, taken: Tensor, own: slice) -> Candidates:
        """The best candidates of a group, whose scores say by what they are chosen.

        log_probs, tokens [B, K, n] of all groups, `own` is where this one's hypotheses stand; taken [B, M].
        """
        times = (tokens[:, own, :, None] == taken[:, None, None]).sum(-1)  # nobody takes padding, or it is dead
        score = beams.score[:, own, None] + log_probs[:, own] - self.config.diversity_penalty * times
        n = 2 * self.config.width
        score, place = top(score.flatten(1), score[0].numel() if self.banks else n)
        parents = own.start + place // tokens.size(2)
        token, log_prob = (values[:, own].flatten(1).gather(1, place) for values in (tokens, log_probs))
        return self.best(beams, Candidates(score, parents, token, log_prob, beams.node.gather(1, parents)), n)

    def ended(self, beams: Beams, longer: Candidates, group: slice, length: Tensor) -> FinishedHypotheses:
        """The best outputs of a group, with those among its candidates, of length [B]."""
        counts = longer.token == self.vocab.eos
        if self.config.stop == "first_k":
            counts = counts & (torch.arange(counts.size(1), device=counts.device) < self.config.width)
        score = (_worth(beams, longer) / self.penalty(length.float())[:, None]).masked_fill(~counts, -torch.inf)
        before = FinishedHypotheses(*(values[:, group] for values in beams.ended))
        return before.best_with(FinishedHypotheses(score, longer.node, longer.log_prob))

    def done(self, beams: Beams) -> Tensor:
        """Which groups are done: [B, G]"""
        return torch.stack(
            [self.is_over(beams, beams.score[:, own].amax(1), beams.ended.score[:, own]) for own in self.groups()], 1
        )

    def over(self, beams: Beams) -> Tensor:
        """Which sentences are done: [B], those of which every group is."""
        return self.done(beams).all(1)

    def found(self, beams: Beams, row: int) -> Found:
        """The best outputs of all groups, each once."""
        outputs = sorted(self.outputs(beams.ended, row, self.config.beam), key=lambda h: -h.score)
        different = {tuple(h.tokens): h for h in reversed(outputs)}
        best = sorted(different.values(), key=lambda h: -h.score)[: self.nbest]
        return Found(beams.sentences[row].place, best)


def _worth(beams: Beams, longer: Candidates) -> Tensor:
    """What the model says of candidates: [B, n]"""
    score = beams.score.gather(1, longer.parents) + longer.log_prob
    return score.masked_fill(longer.score == -torch.inf, -torch.inf)


def _filled(longer: Candidates, n: int) -> Candidates:
    """With dead ones to make n."""
    room = (0, n - longer.score.size(1))
    score, *others = (F.pad(values, room) for values in longer)
    dead = torch.arange(n, device=score.device) >= longer.score.size(1)
    return Candidates(score.masked_fill(dead, -torch.inf), *others)
