"""Length penalties: what log-probabilities are divided by, so that short outputs do not always win."""

from __future__ import annotations

__all__ = ["PENALTIES", "Penalty", "gnmt", "none", "power"]

from collections.abc import Callable

import torch
from torch import Tensor

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
