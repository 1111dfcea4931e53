"""The hypotheses of a beam search: live ones, candidates for the next step, and finished ones.

Shapes: B sentences, K live hypotheses per sentence, E finished ones, n candidates.
"""

from __future__ import annotations

__all__ = ["BeamSentence", "Beams", "Candidates", "FinishedHypotheses"]

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from s2s.decoding.streaming import ActiveBatch, ActiveSentence


@dataclass(frozen=True)
class BeamSentence(ActiveSentence):
    """A sentence whose hypotheses are nodes of the search's history."""

    first_node: int
    """Size of the history when its search began"""


class FinishedHypotheses(NamedTuple):
    """The E best hypotheses that ended, best first."""

    score: Tensor
    """[B, E], log-probability over length penalty; -inf marks an empty slot"""
    node: Tensor
    """[B, E], the history node of the last token before eos"""
    log_prob: Tensor
    """[B, E], of eos"""

    @classmethod
    def empty(cls, n_sentences: int, n: int, device: torch.device) -> Self:
        """The state before any hypothesis has ended."""
        score = torch.full((n_sentences, n), -torch.inf, device=device)
        return cls(score, torch.zeros_like(score, dtype=torch.long), score)


class Candidates(NamedTuple):
    """Hypotheses extended by one token, best first: all [B, n]."""

    score: Tensor
    """Log-probability of the whole hypothesis; -inf marks an empty slot"""
    parents: Tensor
    """Index of the live hypothesis that each extends"""
    token: Tensor
    log_prob: Tensor
    """Of the newest token"""
    node: Tensor
    """History node of the token before the newest"""

    def first(self, n: int) -> Self:
        """The first n."""
        return type(self)(*(values[:, :n] for values in self))


@dataclass(frozen=True, kw_only=True)
class Beams(ActiveBatch[BeamSentence]):
    """The live and finished hypotheses of every sentence."""

    slack: int
    """Steps until a sentence may reach its limit: a lower bound that is known without synchronising the device"""
    length: Tensor
    """[B], tokens of each live hypothesis, without bos"""
    limit: Tensor
    """[B], most tokens of an output, without eos"""
    token: Tensor
    """[B, K], the newest tokens"""
    node: Tensor
    """[B, K], their history nodes"""
    score: Tensor
    """[B, K], log-probabilities, best first; -inf marks an empty slot"""
    finished: FinishedHypotheses

    @property
    def n_hypotheses(self) -> int:
        """K"""
        return self.token.size(1)

    def join(self, other: Self) -> Self:
        """The sentences of both, these first."""
        beam = max(self.n_hypotheses, other.n_hypotheses)
        first, second = self._padded(beam), other._padded(beam)
        return replace(super(Beams, first).join(second), slack=min(first.slack, second.slack))

    def _padded(self, beam: int) -> Self:
        """The batch padded with dead hypotheses, so that each sentence has `beam`."""
        now = self.n_hypotheses
        if now == beam:
            return self
        parents = torch.arange(beam, device=self.token.device).clamp(max=now - 1).expand(len(self.sentences), -1)
        state = self.state.reorder(parents)
        token, node, score = (t.gather(1, parents) for t in (self.token, self.node, self.score))
        constraint_state = None if self.constraint_state is None else self.constraint_state[:, parents[0]]
        score = score.masked_fill(torch.arange(beam, device=score.device) >= now, -torch.inf)
        return replace(self, token=token, node=node, score=score, state=state, constraint_state=constraint_state)
