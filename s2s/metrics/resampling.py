"""Bootstrap resampling: sacrebleu's method, drawn row by row so that memory does not grow with the number of samples.

Shapes: N sentences, K statistics a sentence.
"""

from __future__ import annotations

__all__ = ["bootstrap", "interval", "paired_p_value", "randomization_p_value", "resamples"]

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from s2s.metrics import Metric


def resamples(n: int, samples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Indices [N] of every resample: the same numbers that sacrebleu draws at once as [samples, N]."""
    rng = np.random.default_rng(seed)
    for _ in range(samples):
        yield rng.choice(n, size=n, replace=True)


def bootstrap(
    stats: NDArray[np.float64], score: Callable[[NDArray[np.float64]], float], samples: int, seed: int
) -> NDArray[np.float64]:
    """stats [N, K] -> [samples], the score of the summed statistics [K] of every resample."""
    n = len(stats)
    return np.array([score(np.bincount(i, minlength=n) @ stats) for i in resamples(n, samples, seed)])


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The ends of the middle 95%: one in forty is cut off at either side, as sacrebleu does."""
    ordered, cut = np.sort(values), len(values) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])


def paired_p_value(
    metric: Metric,
    baseline: Sequence[str],
    system: Sequence[str],
    refs: Sequence[Sequence[str]],
    samples: int,
    seed: int,
) -> float:
    """Paired bootstrap for any metric that scores a set of outputs.

    The share of resamples whose difference deviates from the mean difference by more than the observed one, with 1
    added to both counts, as in sacrebleu's own test.
    """

    def score(lines: Sequence[str], rows: NDArray[np.int64]) -> float:
        return metric([lines[i] for i in rows], [[ref[i] for i in rows] for ref in refs]).value

    observed = abs(metric(system, refs).value - metric(baseline, refs).value)
    rows = resamples(len(baseline), samples, seed)
    differences = np.abs([score(system, i) - score(baseline, i) for i in rows])
    strays = np.count_nonzero(differences - differences.mean() > observed)
    return (int(strays) + 1) / (samples + 1)


def randomization_p_value(
    metric: Metric,
    baseline: Sequence[str],
    system: Sequence[str],
    refs: Sequence[Sequence[str]],
    samples: int,
    seed: int,
) -> float:
    """Paired approximate randomisation for any metric that scores a set of outputs (Riezler and Maxwell, 2005).

    The share of the shuffles whose difference deviates from the mean difference by more than the observed one, with 1
    added to both counts; shuffles and rule are those of sacrebleu's own test.
    """
    observed = abs(metric(system, refs).value - metric(baseline, refs).value)
    pairs = list(zip(baseline, system, strict=True))
    swapped = np.random.default_rng(seed).integers(2, size=(samples, len(pairs)), dtype=bool)
    differences = np.empty(samples)
    for number, row in enumerate(swapped):
        first, second = ([pair[int(i ^ other)] for pair, i in zip(pairs, row, strict=True)] for other in (False, True))
        differences[number] = abs(metric(first, refs).value - metric(second, refs).value)
    strays = np.count_nonzero(differences - differences.mean() > observed)
    return (int(strays) + 1) / (samples + 1)
