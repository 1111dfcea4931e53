"""The share of correct answers."""

from __future__ import annotations

__all__ = ["Accuracy"]

from typing import TYPE_CHECKING

import numpy as np

from s2s.metrics import Metric, Score, bootstrap, interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s_stories import AccuracyConfig


class Accuracy(Metric):
    """Outputs that equal one of their references, up to white space, in percent."""

    name = "accuracy"

    def __init__(self, config: AccuracyConfig) -> None:
        del config

    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        """refs [n_refs][n_sentences]"""
        right = [hyp.split() in [ref.split() for ref in those] for hyp, *those in zip(hyps, *refs, strict=True)]
        hits = np.array(right, dtype=float)[:, None]
        low, high, bootstrap_note = None, None, ""
        if samples:
            low, high = interval(100 / len(hits) * bootstrap(hits, lambda total: total[0], samples, seed))
            bootstrap_note = f"|bs:{samples}|seed:{seed}"
        return Score(self.name, 100 * float(hits.mean()), f"accuracy|nrefs:{len(refs)}{bootstrap_note}", low, high)
