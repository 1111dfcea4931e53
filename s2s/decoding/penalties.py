"""Length penalties: what log-probabilities are divided by, so that short outputs do not always win."""

from __future__ import annotations

__all__ = ["PENALTIES", "Penalty", "gnmt", "power"]

from collections.abc import Callable

from torch import Tensor

Penalty = Callable[[Tensor, float], Tensor]
"""(|Y| counting eos, floats of any shape; alpha) -> the same shape; positive, monotone in |Y|, and 1 with alpha 0."""


def gnmt(length: Tensor, alpha: float) -> Tensor:
    """((5 + |Y|) / 6) ** alpha, from Wu et al. (2016), eq. 14."""
    return ((5 + length) / 6) ** alpha


def power(length: Tensor, alpha: float) -> Tensor:
    """|Y| ** alpha; with alpha 1 the score is the mean log-probability of a symbol."""
    return length**alpha


PENALTIES: dict[str, Penalty] = {"gnmt": gnmt, "power": power}
