"""Error rates of words: WER, PER, and the share of outputs that are right.

Shapes: N sentences.
"""

from __future__ import annotations

__all__ = ["Accuracy", "PositionIndependentErrorRate", "WordErrorRate"]

from abc import abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from s2s.metrics import Metric, Score, bootstrap, interval
from s2s_metrics.sacre import check_aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from s2s_metrics import WordsConfig


class WordMetric(Metric):
    """A percentage: a sum over all sentences over another one. Of several references the nearest counts."""

    def __init__(self, config: WordsConfig) -> None:
        self.name, self.config = config.name, config

    @abstractmethod
    def count(self, hyp: list[str], ref: list[str]) -> tuple[int, int]:
        """What is counted in one output, and out of how many."""

    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        """The score, with a bootstrap interval from `samples` resamples, or none if 0."""
        check_aligned(hyps, refs)
        counts = self._counts(hyps, refs)
        low = high = None
        if samples:
            low, high = interval(bootstrap(counts, _percent, samples, seed))
        signature = self._signature(len(refs), samples, seed)
        return Score(self.name, _percent(counts.sum(0)), signature, low, high, self.higher_is_better)

    def per_sentence(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Each sentence's score."""
        return [{"score": _percent(row)} for row in self._counts(hyps, refs)]

    def _counts(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """[N, 2]"""
        best = max if self.higher_is_better else min
        rows = [
            best((self.count(self._words(hyp), self._words(ref)) for ref in row), key=_percent)
            for hyp, *row in zip(hyps, *refs, strict=True)
        ]
        return np.array(rows, dtype=np.float64)

    def _words(self, line: str) -> list[str]:
        return (line.lower() if self.config.lowercase else line).split()

    def _signature(self, n_refs: int, samples: int, seed: int) -> str:
        resampled = [f"bs:{samples}", f"seed:{seed}"] if samples else []
        return "|".join([self.name, f"nrefs:{n_refs}", *resampled, *(["case:lc"] if self.config.lowercase else [])])


class WordErrorRate(WordMetric):
    """100 times the insertions, deletions and substitutions of words that make the reference, over its words."""

    higher_is_better = False

    def count(self, hyp: list[str], ref: list[str]) -> tuple[int, int]:
        """Edits, and words of the reference."""
        row = list(range(len(ref) + 1))
        for i, word in enumerate(hyp, 1):
            diagonal, row[0] = row[0], i
            for j, other in enumerate(ref, 1):
                edits = min(diagonal + (word != other), row[j] + 1, row[j - 1] + 1)
                diagonal, row[j] = row[j], edits
        return row[-1], len(ref)


class PositionIndependentErrorRate(WordMetric):
    """The word error rate of bags of words (Tillmann et al., 1997)."""

    higher_is_better = False

    def count(self, hyp: list[str], ref: list[str]) -> tuple[int, int]:
        """The words of the longer side that the other lacks, and words of the reference."""
        n_shared = (Counter(hyp) & Counter(ref)).total()
        return max(len(hyp), len(ref)) - n_shared, len(ref)


class Accuracy(WordMetric):
    """100 times the share of outputs that have the words of their reference, or of one of them."""

    def count(self, hyp: list[str], ref: list[str]) -> tuple[int, int]:
        """Whether they are equal, out of one."""
        return int(hyp == ref), 1


def _percent(counts: Sequence[float] | NDArray[np.float64]) -> float:
    """From a count and its maximum; without reference words, 0 without errors, else 100."""
    n, of = counts
    return float(100 * n / of) if of else 100.0 * bool(n)
