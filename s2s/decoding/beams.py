"""The batch of a beam search: the live and the finished hypotheses of its sentences.

Shapes: B sentences, K live hypotheses per sentence.
"""

from __future__ import annotations

__all__ = ["BeamRun", "BeamSentence", "Beams"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from s2s.decoding.candidates import FinishedHypotheses
from s2s.decoding.history import History
from s2s.decoding.sentences import ActiveSentence
from s2s.decoding.streaming import ActiveBatch, Run, join_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.decoding.contract import SearchRequest


@dataclass(frozen=True)
class BeamSentence(ActiveSentence):
    """A sentence whose hypotheses are nodes of the search's history."""

    first_node: int
    """Size of the history when its search began"""


class BeamRun(Run["Beams"]):
    """What all steps of one beam search share."""

    def __init__(self, request: SearchRequest, banned: Sequence[int], *, fused: bool) -> None:
        super().__init__(request)
        self.history = History()
        self.banned = torch.tensor(banned, dtype=torch.long, device=request.device)
        """Tokens that no output contains"""
        self.penalties = torch.empty(0)
        """Length penalties of outputs of 0, 1, 2, … tokens, eos included; computed for the lengths that occur"""
        self.fused = fused and not self.transforms.needs_output
        """Whether `fused_steps` may take the place of `BeamSearch.step`"""


@dataclass(frozen=True, kw_only=True)
class Beams(ActiveBatch[BeamSentence]):
    """The live and finished hypotheses of every sentence."""

    run: BeamRun
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
        return join_batches(self._padded(beam), other._padded(beam), slack=min(self.slack, other.slack))

    def _padded(self, beam: int) -> Self:
        """The batch padded with dead hypotheses, so that each sentence has `beam`."""
        now = self.n_hypotheses
        if now == beam:
            return self
        parents = torch.arange(beam, device=self.token.device).clamp(max=now - 1).expand(len(self.sentences), -1)
        state = self.state.reorder(parents)
        token, node, score = (t.gather(1, parents) for t in (self.token, self.node, self.score))
        constraint_state = None if self.constraint_state is None else self.constraint_state[:, parents[0]]
        output = None if self.output is None else self.output[:, parents[0]]
        score = score.masked_fill(torch.arange(beam, device=score.device) >= now, -torch.inf)
        padded = replace(self, token=token, node=node, score=score, state=state)
        return replace(padded, constraint_state=constraint_state, output=output)
