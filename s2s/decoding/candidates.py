"""The candidates of a step of beam search, the hypotheses that have ended, and the length penalties that rank these:
what log-probabilities are divided by, so that short outputs do not always win.

Shapes: B sentences, E finished hypotheses, n candidates.
"""

from __future__ import annotations

__all__ = ["PENALTIES", "Candidates", "FinishedHypotheses", "Penalty", "gnmt", "none", "power"]

from collections.abc import Callable
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


Penalty = Callable[[Tensor, float], Tensor]
"""(|Y| counting eos, floats of any shape; alpha) -> the same shape; positive, monotone in |Y|, and 1 with alpha 0."""


def gnmt(length: Tensor, alpha: float) -> Tensor:
    """((5 + |Y|) / 6) ** alpha, from Wu et al. (2016), eq. 14."""
    return ((5 + length) / 6) ** alpha


def power(length: Tensor, alpha: float) -> Tensor:
    """|Y| ** alpha; with alpha 1 the score is the mean log-probability of a token."""
    return length**alpha


def none(length: Tensor, alpha: float) -> Tensor:  # noqa: ARG001  same signature as the others
    """1 for any `alpha`: outputs are ranked by their log-probability."""
    return torch.ones_like(length)


PENALTIES: dict[str, Penalty] = {"gnmt": gnmt, "power": power, "none": none}
