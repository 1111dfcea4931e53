"""GLEU, the sentence-level reward with which GNMT was refined (Wu et al., 2016, section 5.2).

Shapes: N sentences.
"""

from __future__ import annotations

__all__ = ["Gleu"]

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import sacrebleu
from sacrebleu.metrics.bleu import BLEU

from s2s.metrics import Metric, Score, bootstrap, interval
from s2s_metrics.sacre import check_aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from s2s_metrics import GleuConfig

LONGEST = 4
"""Maximum n-gram order"""


class Gleu(Metric):
    """100 times the minimum of precision and recall of all n-grams of 1 to 4 words: matches / max(n-grams of either).

    With several references, the best one counts; the corpus score is computed from summed counts.
    """

    def __init__(self, config: GleuConfig) -> None:
        self.name, self.config = config.name, config
        self.tokenizer = BLEU(tokenize=config.tokenize).tokenizer

    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        """The score, with a bootstrap interval from `samples` resamples, or none if 0."""
        check_aligned(hyps, refs)
        counts = self._counts(hyps, refs)
        low = high = None
        if samples:
            low, high = interval(bootstrap(counts, _percent, samples, seed))
        return Score(self.name, _percent(counts.sum(0)), self._signature(len(refs), samples, seed), low, high)

    def per_sentence(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Each sentence's score."""
        return [{"score": _percent(row)} for row in self._counts(hyps, refs)]

    def _counts(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Matches, and n-grams of the longer side, against each sentence's best reference: [N, 2]"""
        rows = []
        for hyp, *of in zip(hyps, *refs, strict=True):
            n_grams = self._n_grams(hyp)
            against = [self._n_grams(ref) for ref in of]
            pairs = [((n_grams & ref).total(), max(n_grams.total(), ref.total())) for ref in against]
            rows.append(max((pair for pair in pairs if pair[1]), key=lambda pair: pair[0] / pair[1], default=(0, 0)))
        return np.array(rows, dtype=np.float64)

    def _n_grams(self, line: str) -> Counter[tuple[str, ...]]:
        words = self.tokenizer(line.lower() if self.config.lowercase else line).split()
        ends = ((i, i + n) for n in range(1, LONGEST + 1) for i in range(len(words) - n + 1))
        return Counter(tuple(words[i:j]) for i, j in ends)

    def _signature(self, n_refs: int, samples: int, seed: int) -> str:
        resampled = [f"bs:{samples}", f"seed:{seed}"] if samples else []
        case = "lc" if self.config.lowercase else "mixed"
        parts = [f"nrefs:{n_refs}", *resampled, f"case:{case}", f"tok:{self.config.tokenize}", f"n:{LONGEST}"]
        return "|".join([*parts, f"version:{sacrebleu.__version__}"])


def _percent(counts: NDArray[np.float64]) -> float:
    """The score from matches and n-grams [2]; 0 for empty sentences, as in nltk."""
    matches, n_grams = counts
    return float(100 * matches / n_grams) if n_grams else 0.0
