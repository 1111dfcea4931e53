"""The candidates of a step of beam search, and the hypotheses that have ended.

Shapes: B sentences, E finished hypotheses, n candidates.
"""

from __future__ import annotations

__all__ = ["Candidates", "FinishedHypotheses"]

from typing import NamedTuple, Self

import torch
from torch import Tensor


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
