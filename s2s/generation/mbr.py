"""Minimum Bayes risk: of several outputs, the one that is likest to all of them (Kumar and Byrne, 2004)."""

from __future__ import annotations

__all__ = ["rank_by_utility"]

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.metrics import Metric


def rank_by_utility(
    texts: Sequence[str], log_probs: Sequence[float], metric: Metric, weights: Literal["uniform", "model"]
) -> list[tuple[int, float]]:
    """Places of different texts, the first of equal ones, and their expected utility, the largest first.

    The utility of an output beside another is what the metric says of it with that one as its reference, negative
    where less is better; the mean is over all outputs, itself among them.
    """
    places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault(text, []).append(place)
    share = np.ones(len(texts)) if weights == "uniform" else np.exp(np.array(log_probs) - max(log_probs))
    of_text = np.array([share[own].sum() for own in places.values()])
    beside = np.array(metric.pairwise(list(places))) * (1 if metric.higher_is_better else -1)
    utilities = beside @ of_text / of_text.sum()
    order = np.argsort(-utilities, kind="stable").tolist()
    first = [own[0] for own in places.values()]
    return [(first[number], float(utilities[number])) for number in order]
