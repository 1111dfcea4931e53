"""Diverse beam search, after Vijayakumar et al. (2018): groups that avoid the tokens of the groups before them.

Each group is a beam of its own, with its own finished hypotheses and its own end. In each step the groups choose their
tokens one after another; a candidate's score is lowered for each hypothesis of an earlier group that chose the same
token in this step. Only the choice depends on the lowered score: a hypothesis keeps the score of the model. Finished
hypotheses of earlier groups carry no diversity penalty.

Shapes: B sentences, K live hypotheses per sentence, those of a group contiguous, G groups, V target vocabulary, n
candidates, M tokens that earlier groups have chosen.
"""

from __future__ import annotations

__all__ = ["DiverseBeamSearch", "build_beam_search"]

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.backend import operators
from s2s.decoding import Beams, BeamSearch, Candidates, FinishedHypotheses, SearchResult

if TYPE_CHECKING:
    from s2s_search import DiverseBeamConfig


def build_beam_search(config: DiverseBeamConfig) -> BeamSearch:
    """`BeamSearch`, or with several groups `DiverseBeamSearch`."""
    return (DiverseBeamSearch if config.num_beam_groups > 1 else BeamSearch)(config)


class DiverseBeamSearch(BeamSearch):
    """Beam search in groups; see `DiverseBeamConfig.num_beam_groups`."""

    config: DiverseBeamConfig

    def groups(self) -> list[slice]:
        """Indices of each group's hypotheses."""
        width = self.config.group_size
        return [slice(begin, begin + width) for begin in range(0, self.config.beam, width)]

    def step(self, batch: Beams) -> Beams:
        """All live hypotheses extended by one token, except those of finished groups."""
        if batch.n_hypotheses == 1:  # the first step: all groups extend one hypothesis
            return super().step(batch)
        done = self.finished_groups(batch).repeat_interleave(self.config.group_size, dim=1)  # [B, K]
        return super().step(replace(batch, score=batch.score.masked_fill(done, -torch.inf)))

    def select(
        self, beams: Beams, logits: Tensor, allowed: Tensor | None, length: Tensor
    ) -> tuple[FinishedHypotheses, Candidates]:
        """The finished and the live hypotheses of each group: logits, allowed [B, K, V], length [B]."""
        width, groups = self.config.group_size, self.groups()
        n = (len(groups) + 1) * width  # the last group needs 2 * width, others may have chosen K - width of its best
        run, states = beams.run, beams.constraint_state
        log_probs, tokens = operators.top_k_log_probs(
            logits, n, run.banned, allowed, run.request.normalize
        )  # [B, K, n]
        if (allocation := run.constraint.allocation) and states is not None and allowed is not None:
            log_probs, tokens = allocation.add_required(states, logits, allowed, log_probs, tokens, run.banned)
        lives, finished, chosen = [], [], tokens[:, 0, :0]
        for group in groups:
            members = group if tokens.size(1) > 1 else slice(0, 1)
            candidates = self.penalised(beams, log_probs, tokens, chosen, members)
            finished.append(self.finish_group(beams, candidates, group, length))
            live = self.unfinished(beams, candidates, width)
            lives.append(_filled(live._replace(score=_model_score(beams, live)), width))
            dead = lives[-1].score == -torch.inf
            chosen = torch.cat([chosen, lives[-1].token.masked_fill(dead, run.request.vocab.pad)], 1)
        every = FinishedHypotheses(*(torch.cat(values, dim=1) for values in zip(*finished, strict=True)))
        return every, Candidates(*(torch.cat(values, dim=1) for values in zip(*lives, strict=True)))

    def penalised(self, beams: Beams, log_probs: Tensor, tokens: Tensor, chosen: Tensor, members: slice) -> Candidates:
        """The best candidates of a group by their lowered scores.

        log_probs, tokens [B, K, n] of all groups, of which `own` are this group's hypotheses; chosen [B, M].
        """
        times = (tokens[:, members, :, None] == chosen[:, None, None]).sum(
            -1
        )  # padding in `chosen` matches no candidate
        score = beams.score[:, members, None] + log_probs[:, members] - self.config.diversity_penalty * times
        n, allocation = 2 * self.config.group_size, beams.run.constraint.allocation
        score, index = operators.top_k(score.flatten(1), score[0].numel() if allocation else n)
        parents = members.start + index // tokens.size(2)
        token, log_prob = (values[:, members].flatten(1).gather(1, index) for values in (tokens, log_probs))
        candidates = Candidates(score, parents, token, log_prob, beams.node.gather(1, parents))
        if not allocation or beams.constraint_state is None:
            return candidates.first(n)
        return allocation.select(beams.constraint_state, candidates, n)

    def finish_group(self, beams: Beams, candidates: Candidates, group: slice, length: Tensor) -> FinishedHypotheses:
        """The finished hypotheses of a group, including those of its candidates that end, which have length [B]."""
        before = FinishedHypotheses(*(values[:, group] for values in beams.finished))
        earlier = replace(beams, finished=before)
        return self.finish(earlier, candidates._replace(score=_model_score(beams, candidates)), length)

    def finished_groups(self, beams: Beams) -> Tensor:
        """Which groups are finished: [B, G]"""
        ended = []
        for members in self.groups():
            best = beams.score[:, members].amax(1, keepdim=True)  # live hypotheses are sorted by their lowered scores
            ended.append(self.cannot_improve(beams, best, beams.finished.score[:, members]))
        return torch.stack(ended, 1)

    def is_done(self, batch: Beams) -> Tensor:
        """Which sentences are finished, that is, all their groups: [B]"""
        return self.finished_groups(batch).all(1)

    def result(self, batch: Beams, row: int) -> SearchResult:
        """The best outputs of all groups, without duplicates."""
        outputs = sorted(self.outputs(batch, row, self.config.beam), key=lambda h: -h.score)
        different = {tuple(h.tokens): h for h in reversed(outputs)}
        best = sorted(different.values(), key=lambda h: -h.score)[: batch.run.request.nbest]
        return SearchResult(batch.sentences[row].index, best)


def _model_score(beams: Beams, candidates: Candidates) -> Tensor:
    """The log-probabilities of candidates, without the diversity penalty: [B, n]"""
    score = beams.score.gather(1, candidates.parents) + candidates.log_prob
    return score.masked_fill(candidates.score == -torch.inf, -torch.inf)


def _filled(candidates: Candidates, n: int) -> Candidates:
    """The candidates padded with dead ones, so that there are n."""
    room = (0, n - candidates.score.size(1))
    score, *others = (F.pad(values, room) for values in candidates)
    dead = torch.arange(n, device=score.device) >= candidates.score.size(1)
    return Candidates(score.masked_fill(dead, -torch.inf), *others)
