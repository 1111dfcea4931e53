"""Metrics of outputs; every score carries the signature that makes it comparable.

A metric derives from `Metric`, defines `__call__`, and is registered by its plugin; comparing systems then works.
"""

from __future__ import annotations

__all__ = [
    "Comparison",
    "Metric",
    "PairedTest",
    "Score",
    "bootstrap",
    "build_metrics",
    "compare",
    "interval",
    "stats_p_values",
]

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from s2s.errors import ConfigError, PluginError
from s2s.lazy import lazy_names
from s2s.metrics.build import build_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s.metrics.resampling import bootstrap, interval, stats_p_values


@dataclass(frozen=True)
class Score:
    """The score of a set of outputs, with its signature."""

    name: str
    """Key, such as "bleu"."""
    value: float
    signature: str
    """Settings that must be equal for two scores to be comparable."""
    low: float | None = None
    """Lower end of the 95% interval."""
    high: float | None = None
    """Upper end of the 95% interval."""
    higher_is_better: bool = True
    detail: dict[str, Any] = field(default_factory=dict)
    """Parts of the score, such as the brevity penalty."""


@dataclass(frozen=True)
class PairedTest:
    """A test of the difference between two systems on the same sentences."""

    samples: int
    seed: int
    kind: Literal["bootstrap", "randomization"] = "bootstrap"
    """Paired bootstrap, or approximate randomisation, in which outputs of the two systems change places"""


class Metric(ABC):
    """Scores outputs against one or several references per sentence."""

    name: str
    """Key of its scores, such as "bleu"."""
    higher_is_better: bool = True

    @abstractmethod
    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        """Score, with a bootstrap interval of `samples` resamples, none if 0. refs: [n_refs][n_sentences]."""

    def scored(self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345) -> Score:
        """The score that `__call__` returns, as commands report it: with the name and the direction of the metric.

        Raises PluginError for what is no score, and where only the score says that lower is better.

        hyps: outputs. refs: references, [n_refs][n_sentences]. samples: of the bootstrap for the interval; 0: none.
        seed: of the bootstrap.
        """
        score, what = self(hyps, refs, samples, seed), f"metric {self.name}: {type(self).__name__}"
        if not isinstance(score, Score):
            raise PluginError(f"{what}.__call__: expected an s2s.metrics.Score, got {type(score).__name__}")
        if self.higher_is_better and not score.higher_is_better:
            raise PluginError(f"{what}.higher_is_better is True, and that of its scores False; set the metric's own")
        value: Any = score.value  # a number of numpy or torch, which JSON does not know
        return replace(score, name=self.name, value=float(value), higher_is_better=self.higher_is_better)

    def per_sentence(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """Scores of each sentence, under the same names for all, the main one first.

        The default scores each sentence by itself.
        """
        return [{"score": self([hyp], [[ref] for ref in of]).value} for hyp, *of in zip(hyps, *refs, strict=True)]

    def pairwise(self, texts: Sequence[str]) -> list[list[float]]:
        """The score of each text against each other as its only reference: [n][n], a row for each hypothesis.

        The default takes the main score of `per_sentence`, for n squared pairs.

        texts: outputs for one input.
        """
        rows = [self.per_sentence([text] * len(texts), [texts]) for text in texts]
        return [[next(iter(scores.values())) for scores in row] for row in rows]

    def p_values(
        self, baseline: Sequence[str], systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]], test: PairedTest
    ) -> list[float]:
        """p-value of each system's difference from the baseline.

        The default scores every resample anew, which works for any metric and is slow.

        baseline: outputs of the first system. systems: outputs of each other system. test: the test and its samples.
        """
        from s2s.metrics.resampling import paired_p_value  # numpy, which listing plugins does without

        return [paired_p_value(self, baseline, system, refs, test) for system in systems]


@dataclass(frozen=True)
class Comparison:
    """One system's score compared with the baseline's."""

    system: str
    score: Score
    difference: float | None = None
    """Score minus the baseline's; None for the baseline itself."""
    p_value: float | None = None
    """Of the difference; None for the baseline and without samples."""
    test: str = "bootstrap"
    """That gave the p-value: bootstrap or randomization"""
    sentences: list[dict[str, Any]] | None = None
    """`Metric.per_sentence`; None if not requested."""


def compare(
    metric: Metric,
    systems: Mapping[str, Sequence[str]],
    refs: Sequence[Sequence[str]],
    samples: int = 1000,
    seed: int = 12345,
    *,
    test: Literal["bootstrap", "randomization"] = "bootstrap",
) -> list[Comparison]:
    """Score every system, and test each but the first against the first."""
    if samples < 0 or seed < 1:
        # sacrebleu's paired test treats the seed 0 as no seed, so that no two runs agree
        raise ConfigError(f"samples={samples} seed={seed}: give samples from 0 up and a seed from 1 up")
    scores = {name: metric.scored(hyps, refs, samples, seed) for name, hyps in systems.items()}
    (first, baseline), *others = systems.items()
    p_values: Sequence[float | None] = [None] * len(others)
    if samples and others:
        p_values = metric.p_values(baseline, [hyps for _, hyps in others], refs, PairedTest(samples, seed, test))
    return [Comparison(first, scores[first], test=test)] + [
        _compared(name, scores[name], scores[first], p, test) for (name, _), p in zip(others, p_values, strict=True)
    ]


def _compared(system: str, score: Score, baseline: Score, p_value: float | None, test: str) -> Comparison:
    """A resampling test would give equal scores the smallest p-value: they get 1, and NaN gets NaN."""
    difference = score.value - baseline.value
    if p_value is not None and not abs(difference) > 0:
        p_value = difference if math.isnan(difference) else 1.0
    return Comparison(system, score, difference, p_value, test)


__getattr__ = lazy_names(__name__, "resampling")
