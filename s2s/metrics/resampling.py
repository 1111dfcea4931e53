"""Resampling: bootstrap, and approximate randomisation, with the numbers that sacrebleu draws.

Shapes: N sentences, K statistics a sentence.
"""

from __future__ import annotations

__all__ = ["bootstrap", "interval", "paired_p_value", "resamples", "stats_p_values"]

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from s2s.metrics import Metric, PairedTest


def resamples(n: int, samples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Indices [N] of every resample: the same numbers that sacrebleu draws at once as [samples, N]."""
    rng = np.random.default_rng(seed)
    for _ in range(samples):
        yield rng.choice(n, size=n, replace=True)


def bootstrap(
    stats: NDArray[np.float64], score: Callable[[NDArray[np.float64]], float], samples: int, seed: int
) -> NDArray[np.float64]:
    """stats [N, K] -> [samples], the score of the summed statistics [K] of every resample."""
    n, columns = len(stats), np.ascontiguousarray(stats.T)

    def total(indices: NDArray[np.int64]) -> NDArray[np.float64]:
        counts = np.bincount(indices, minlength=n).astype(np.float64)
        return np.einsum("n,kn->k", counts, columns)  # not BLAS, whose threads spin for ten times as long

    return np.array([score(total(indices)) for indices in resamples(n, samples, seed)])


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The ends of the middle 95%: one in forty is cut off at either side, as sacrebleu does."""
    ordered, cut = np.sort(values), len(values) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])


def paired_p_value(
    metric: Metric, baseline: Sequence[str], system: Sequence[str], refs: Sequence[Sequence[str]], test: PairedTest
) -> float:
    """p-value of the difference of two systems, for any metric: every resample is scored anew.

    Paired bootstrap, or approximate randomisation (Riezler and Maxwell, 2005): what is drawn and the rule are those of
    sacrebleu's own tests.
    """
    observed = metric(system, refs).value - metric(baseline, refs).value
    if test.kind == "bootstrap":

        def score(lines: Sequence[str], rows: NDArray[np.int64]) -> float:
            return metric([lines[i] for i in rows], [[ref[i] for i in rows] for ref in refs]).value

        drawn = resamples(len(baseline), test.samples, test.seed)
        differences = [score(system, rows) - score(baseline, rows) for rows in drawn]
    else:
        pairs = list(zip(baseline, system, strict=True))

        def chosen(places: NDArray[np.bool_]) -> float:
            return metric([pair[int(i)] for pair, i in zip(pairs, places, strict=True)], refs).value

        differences = [chosen(swap) - chosen(~swap) for swap in _swaps(len(pairs), test)]
    return _p_value(observed, differences)


def stats_p_values(
    baseline: NDArray[np.float64],
    systems: Sequence[NDArray[np.float64]],
    score: Callable[[NDArray[np.float64]], float],
    test: PairedTest,
) -> list[float]:
    """The same of every system, from statistics [N, K] of each one's sentences, whose sums [K] have a score."""
    if test.kind == "bootstrap":
        first, *others = (bootstrap(stats, score, test.samples, test.seed) for stats in (baseline, *systems))
        differences = [other - first for other in others]
    else:
        differences = [_exchanged(baseline, stats, score, test) for stats in systems]
    observed = [score(stats.sum(0)) - score(baseline.sum(0)) for stats in systems]
    return [_p_value(*pair) for pair in zip(observed, differences, strict=True)]


def _exchanged(
    baseline: NDArray[np.float64],
    system: NDArray[np.float64],
    score: Callable[[NDArray[np.float64]], float],
    test: PairedTest,
) -> NDArray[np.float64]:
    """[samples], differences after some outputs have changed places."""
    moved = (np.where(swap[:, None], system - baseline, 0).sum(0) for swap in _swaps(len(system), test))
    first, second = baseline.sum(0), system.sum(0)
    return np.array([score(first + some) - score(second - some) for some in moved])


def _swaps(n: int, test: PairedTest) -> NDArray[np.bool_]:
    """[samples, N], True where the outputs of the two systems change places, as sacrebleu draws it."""
    return np.random.default_rng(test.seed).integers(2, size=(test.samples, n), dtype=bool)


def _p_value(observed: float, differences: Sequence[float] | NDArray[np.float64]) -> float:
    """The share of differences that deviate from their mean by more than the observed one; both counts have 1 added."""
    sizes = np.abs(differences)
    strays = np.count_nonzero(sizes - sizes.mean() > abs(observed))
    return (int(strays) + 1) / (len(sizes) + 1)
