"""The sentences of a search, while it goes on.

Shapes: B sentences, K live hypotheses per sentence, E that have ended.
"""

from __future__ import annotations

__all__ = ["Beams", "Candidates", "FinishedHypotheses", "Sentence"]

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from s2s.decoding.streaming import ActiveBatch
from s2s.decoding.topk import top
from s2s.tensors import join_tensors


class Sentence(NamedTuple):
    """What the host knows of a sentence."""

    place: int
    """Its number among the sources"""
    n_source: int
    """Its symbols, with eos"""
    begun: int
    """The history's size when it began"""


class FinishedHypotheses(NamedTuple):
    """The best outputs that have ended, best first."""

    score: Tensor
    """[B, E], the log-probability over the penalty; -inf: there is none"""
    node: Tensor
    """[B, E], the last symbol before eos, by its number in the history"""
    log_prob: Tensor
    """[B, E], of eos"""

    @classmethod
    def none(cls, n_sentences: int, n: int, device: torch.device) -> Self:
        """Nothing has ended yet."""
        score = torch.full((n_sentences, n), -torch.inf, device=device)
        return cls(score, torch.zeros_like(score, dtype=torch.long), score)

    def best_with(self, other: Self) -> Self:
        """The E best of both; of equal ones, what was there before comes first."""
        both = [torch.cat(pair, dim=1) for pair in zip(self, other, strict=True)]
        score, place = top(both[0], self.score.size(1))
        return type(self)(score, *(values.gather(1, place) for values in both[1:]))


class Candidates(NamedTuple):
    """Hypotheses with one more symbol, best first: all [B, n]."""

    score: Tensor
    """Log-probabilities; -inf: there is none"""
    parents: Tensor
    """Which hypotheses they go on from"""
    token: Tensor
    log_prob: Tensor
    """Of the newest symbol"""
    node: Tensor
    """The symbol before it, by its number in the history"""

    def without(self, dead: Tensor) -> Self:
        """The same without those `dead` [B, n], which come last."""
        score, place = top(self.score.masked_fill(dead, -torch.inf), dead.size(1))
        return type(self)(score, *(values.gather(1, place) for values in self[1:]))

    def best(self, n: int) -> Self:
        """The first n."""
        return type(self)(*(values[:, :n] for values in self))


@dataclass(frozen=True, kw_only=True)
class Beams(ActiveBatch[Sentence]):
    """All that is known of the sentences being searched."""

    slack: int
    """Steps for which no sentence can be at its limit, known without asking the device"""
    length: Tensor
    """[B], symbols of each live hypothesis, without bos"""
    limit: Tensor
    """[B], most symbols of an output, without eos"""
    token: Tensor
    """[B, K], the newest symbols"""
    node: Tensor
    """[B, K], their numbers in the history"""
    score: Tensor
    """[B, K], log-probabilities, best first; -inf: there is none"""
    ended: FinishedHypotheses

    def join(self, other: Self) -> Self:
        """The sentences of both, these first."""
        beam = max(self.token.size(1), other.token.size(1))
        first, second = self._widened(beam), other._widened(beam)
        return type(self)(
            sentences=first.sentences + second.sentences,
            slack=min(first.slack, second.slack),
            state=first.state.join(second.state),
            **join_tensors(first.tensors(), second.tensors()),
        )

    def _widened(self, beam: int) -> Self:
        """With dead hypotheses to make `beam` of each sentence."""
        now = self.token.size(1)
        if now == beam:
            return self
        parents = torch.arange(beam, device=self.token.device).clamp(max=now - 1).expand(len(self.sentences), -1)
        state = self.state.reorder(parents)
        token, node, score = (t.gather(1, parents) for t in (self.token, self.node, self.score))
        automaton = None if self.automaton is None else self.automaton[:, parents[0]]
        score = score.masked_fill(torch.arange(beam, device=score.device) >= now, -torch.inf)
        return replace(self, token=token, node=node, score=score, state=state, automaton=automaton)
