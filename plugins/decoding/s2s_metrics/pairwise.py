"""BLEU and chrF of every text against every other as its only reference, counting the n-grams of a text once.

Shapes: n texts, F n-gram features, one for each n-gram and occurrence number.
"""

from __future__ import annotations

__all__ = ["bleu_pairwise", "chrf_pairwise"]

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    Matrix = NDArray[np.float64]


def bleu_pairwise(scorer: BLEU, texts: Sequence[str]) -> Matrix:
    """[n, n], a row for each output; texts are already processed by the scorer's tokeniser."""
    counted: list[dict[str, Any]] = [scorer._extract_reference_info([text]) for text in texts]
    orders = range(1, scorer.max_ngram_order + 1)
    grams = [[_of_order(info["ref_ngrams"], order) for info in counted] for order in orders]
    lengths = [info["ref_lens"][0] for info in counted]
    shared = np.stack([matches(order_grams) for order_grams in grams], axis=-1)  # [n, n, orders]
    totals = [[order_grams[i].total() for order_grams in grams] for i in range(len(texts))]
    log_precision = np.zeros(shared.shape[:2])
    for i, j in np.ndindex(*log_precision.shape):
        stats = [lengths[i], lengths[j], *shared[i, j].tolist(), *totals[i]]
        log_precision[i, j] = scorer._compute_score_from_stats(stats).score
    return log_precision


def chrf_pairwise(scorer: CHRF, texts: Sequence[str]) -> Matrix:
    """[n, n], a row for each output: means of precision and of recall over the orders that both texts have."""
    counted: list[list[Counter[str]]] = scorer._extract_reference_info(texts)["ref_ngrams"]
    precision, recall, n_orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for order_counts in zip(*counted, strict=True):
        totals = np.array([counter.total() for counter in order_counts], dtype=np.float64)
        both = (totals[:, None] > 0) & (totals > 0)
        shared = matches(order_counts)
        precision += np.divide(shared, totals[:, None], out=np.zeros_like(shared), where=both)
        recall += np.divide(shared, totals, out=np.zeros_like(shared), where=both)
        n_orders += both
    precision, recall = (x / np.maximum(n_orders, 1) for x in (precision, recall))
    weight = scorer.beta**2
    below = weight * precision + recall
    return 100 * np.divide((1 + weight) * precision * recall, below, out=np.zeros_like(below), where=below > 0)


def matches(counters: Sequence[Counter[Any]]) -> Matrix:
    """[n, n], the number of n-grams that two texts share, each counted as often as in the text with fewer of it.

    The k-th occurrence of an n-gram is a feature of its own, so that one matrix product counts all matches.
    """
    kinds: dict[tuple[Hashable, int], int] = {}
    rows = [[kinds.setdefault(kind, len(kinds)) for kind in _numbered(counter)] for counter in counters]
    present = np.zeros((len(rows), len(kinds)), dtype=np.float32)  # [n, F]; whole numbers stay exact
    for row, columns in zip(present, rows, strict=True):
        row[columns] = 1
    return (present @ present.T).astype(np.float64)


def _numbered(counter: Counter[Any]) -> Iterable[tuple[Hashable, int]]:
    return ((gram, k) for gram, count in counter.items() for k in range(count))


def _of_order(grams: Counter[Any], order: int) -> Counter[Any]:
    return Counter({gram: count for gram, count in grams.items() if len(gram) == order})
