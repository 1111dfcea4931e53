"""Minimum Bayes risk decoding: the output with the largest expected utility (Kumar and Byrne, 2004)."""

from __future__ import annotations

__all__ = ["MinimumBayesRisk", "rank_by_utility"]

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from s2s.generation import OutputStage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.decoding import Hypothesis
    from s2s.metrics import Metric


class MinimumBayesRisk(OutputStage):
    """Ranks outputs by their expected utility, which becomes their score."""

    def __init__(self, metric: Metric, weights: Literal["uniform", "model"]) -> None:
        self.metric, self.weights = metric, weights

    def rerank(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis]) -> list[tuple[int, float]]:
        """Ranks the distinct outputs."""
        if self.weights == "uniform":
            return rank_by_utility(texts, [1.0] * len(texts), self.metric)
        best = max(one.log_prob for one in hypotheses)
        first = {tuple(one.tokens): i for i, one in reversed(list(enumerate(hypotheses)))}.values()
        shares = [math.exp(one.log_prob - best) if i in first else 0.0 for i, one in enumerate(hypotheses)]
        return rank_by_utility(texts, shares, self.metric)


def rank_by_utility(texts: Sequence[str], shares: Sequence[float], metric: Metric) -> list[tuple[int, float]]:
    """Indices of distinct texts, the first of equal ones, and their expected utilities, in descending order.

    The utility of an output given a reference is the metric's score, negated if lower is better; the expectation is
    over all texts as references, itself included, each with the sum of its outputs' shares.
    """
    indices: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        indices.setdefault(text, []).append(index)
    text_shares = np.array([sum(shares[i] for i in positions) for positions in indices.values()])
    utility = np.array(metric.pairwise(list(indices))) * (1 if metric.higher_is_better else -1)
    utilities = utility @ text_shares / text_shares.sum()
    order = np.argsort(-utilities, kind="stable").tolist()
    first = [positions[0] for positions in indices.values()]
    return [(first[number], float(utilities[number])) for number in order]
