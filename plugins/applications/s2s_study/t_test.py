"""Student's t: intervals of a mean over seeds, and Welch's test of two means, corrected for many tests.

With x = sqrt(nu) tan(theta) the density is proportional to cos(theta) ** (nu - 1), whose integral is smooth.
"""

from __future__ import annotations

__all__ = ["half_width", "holm", "t_quantile", "two_sided", "welch"]

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES, WEIGHTS = np.polynomial.legendre.leggauss(100)


def two_sided(t: float, nu: float) -> float:
    """P(|T| > |t|) with nu degrees of freedom, nu >= 1."""
    end = math.atan2(abs(t), math.sqrt(nu))
    integral = float(end / 2 * (WEIGHTS * np.cos(end / 2 * (NODES + 1)) ** (nu - 1)).sum())
    whole = math.sqrt(math.pi) / 2 * math.exp(math.lgamma(nu / 2) - math.lgamma((nu + 1) / 2))
    return min(max(1 - integral / whole, 0.0), 1.0)


def t_quantile(nu: float, alpha: float = 0.05) -> float:
    """The t that |T| exceeds with probability alpha, by bisection."""
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, nu) > alpha else (low, middle)
    return high


def half_width(values: Sequence[float]) -> float | None:
    """Half of the 95% interval of their mean; None for fewer than two."""
    n = len(values)
    return None if n < 2 else t_quantile(n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n)


def welch(a: Sequence[float], b: Sequence[float]) -> float | None:
    """p of a difference of two means (Welch, 1947); None with fewer than two values on a side."""
    if min(len(a), len(b)) < 2:
        return None
    one, two = (float(np.var(values, ddof=1)) / len(values) for values in (a, b))
    difference = float(np.mean(a) - np.mean(b))
    if one + two == 0:
        return 1.0 if difference == 0 else 0.0
    nu = (one + two) ** 2 / (one**2 / (len(a) - 1) + two**2 / (len(b) - 1))
    return two_sided(difference / math.sqrt(one + two), nu)


def holm(p_values: Sequence[float]) -> list[float]:
    """Each p, corrected for their number (Holm, 1979): below a level, it makes one false finding as rare as that."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected, highest = [1.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min((len(p_values) - rank) * p_values[i], 1.0))
        corrected[i] = highest
    return corrected
