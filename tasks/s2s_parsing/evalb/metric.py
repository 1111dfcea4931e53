"""EVALB as a metric: labelled F1 with its confidence interval, and the other figures of EVALB as detail."""

from __future__ import annotations

__all__ = ["Evalb"]

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

import s2s
from s2s import ConfigError, DataError
from s2s.metrics import Metric, PairedTest, Score, bootstrap, interval, stats_p_values
from s2s_parsing.evalb.parameters import find_parameters
from s2s_parsing.evalb.scoring import ERROR, SKIPPED, VALID, Figures, Scorer
from s2s_parsing.evalb.totals import LabelTotals, Totals, f1, label_totals, percent
from s2s_parsing.evalb.wrappers import unmatched_wrappers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from s2s_parsing import EvalbConfig

logger = logging.getLogger(__name__)
STATUS = {VALID: "valid", ERROR: "error", SKIPPED: "skipped"}


class Evalb(Metric):
    """Labelled bracketing F1 of trees, one on each line."""

    def __init__(self, config: EvalbConfig) -> None:
        self.name = config.name
        self.config = config
        self.parameters = find_parameters(config.param)
        self.cutoff = self.parameters.cutoff if config.cutoff is None else config.cutoff
        self.scorer = Scorer(self.parameters)

    def __call__(
        self, hyps: Sequence[str], refs: Sequence[Sequence[str]], samples: int = 0, seed: int = 12345
    ) -> Score:
        """F1 over all sentences; the interval is from a bootstrap over sentences."""
        gold = _only(refs, hyps)
        self._warn_of_wrappers(gold, hyps)
        self._warn_of_parts(gold)
        figures = [self.scorer(ref, hyp) for ref, hyp in zip(gold, hyps, strict=True)]
        stats = self._stats(figures, gold, hyps)
        low = high = None
        if samples:
            low, high = interval(bootstrap(stats, _f1, samples, seed))
        return Score(
            name=self.name,
            value=_f1(stats.sum(0)),
            signature=self._signature(samples, seed),
            low=low,
            high=high,
            detail=self._detail(figures, stats),
        )

    def per_sentence(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """EVALB's row of each sentence, preceded by F1 and followed by what is wrong with the sentence."""
        return [_row(self.scorer(ref, hyp)) for ref, hyp in zip(_only(refs, hyps), hyps, strict=True)]

    def p_values(
        self, baseline: Sequence[str], systems: Sequence[Sequence[str]], refs: Sequence[Sequence[str]], test: PairedTest
    ) -> list[float]:
        """As in the base class, but from brackets that are counted only once."""
        first, *others = (self._counted(lines, refs) for lines in (baseline, *systems))
        return stats_p_values(first, others, _f1, test)

    def _warn_of_wrappers(self, gold: Sequence[str], hyps: Sequence[str]) -> None:
        """Warn that a bracket around the trees of one side counts, which no score of EVALB shows."""
        for label, n in unmatched_wrappers(gold, hyps, self.scorer).items():
            logger.warning(
                "%s: %s trees are in a bracket (%s …) that the other side's do not have; as in EVALB, param=%s counts "
                "it, and nothing matches it. `python -m s2s_parsing.treebank FILE` prints trees under TOP, which does "
                "not count",
                *(self.name, f"{n:,}", label, self.parameters.name),
            )

    def _warn_of_parts(self, gold: Sequence[str]) -> None:
        """Warn of references whose trees go over several lines: EVALB leaves them out, or finds trees inside them."""
        if n := sum(line.count("(") != line.count(")") for line in gold):
            logger.warning(
                "%s: %s of %s lines of the reference are parts of trees; `python -m s2s_parsing.treebank FILE` writes "
                "each tree on one line",
                *(self.name, f"{n:,}", f"{len(gold):,}"),
            )

    def _counted(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Matched, reference's and predicted brackets of every sentence, [N, 3]."""
        gold = _only(refs, hyps)
        return self._stats([self.scorer(ref, hyp) for ref, hyp in zip(gold, hyps, strict=True)], gold, hyps)

    def _stats(self, figures: Sequence[Figures], gold: Sequence[str], test: Sequence[str]) -> NDArray[np.float64]:
        """Matched, reference's and predicted brackets of every sentence, [N, 3]."""
        rows = [
            (len(f.matches), len(f.gold), len(f.test)) if f.status == VALID else self._invalid(gold[i], test[i])
            for i, f in enumerate(figures)
        ]
        return np.array(rows, dtype=np.float64)

    def _invalid(self, gold: str, test: str) -> tuple[int, int, int]:
        """The row of a sentence that could not be compared."""
        if self.config.errors == "leave_out":
            return 0, 0, 0
        return 0, len(self.scorer.labels(gold)), len(self.scorer.labels(test))

    def _signature(self, samples: int, seed: int) -> str:
        parts = ["nrefs:1", f"param:{self.parameters.name}", f"cutoff:{self.cutoff}", f"errors:{self.config.errors}"]
        drawn = [f"bs:{samples}", f"seed:{seed}"] if samples else []
        return "|".join([*parts, *drawn, f"version:s2s-{s2s.__version__}"])

    def _detail(self, figures: Sequence[Figures], stats: NDArray[np.float64]) -> dict[str, Any]:
        """Both of EVALB's summaries, and the figures of each label."""
        everything, short = Totals(), Totals()
        for one in figures:
            everything.add(one)
            if one.length <= self.cutoff:
                short.add(one)
        sums, short_sums = stats.sum(0), stats[[one.length <= self.cutoff for one in figures]].sum(0)
        return {
            **_summary(everything),
            **_precision_and_recall(sums),
            f"f1_to_{self.cutoff}": _f1(short_sums),
            f"to_{self.cutoff}": {"f1": _f1(short_sums), **_summary(short), **_precision_and_recall(short_sums)},
            "labels": {label: _of_label(of) for label, of in label_totals(figures).items()},
        }


def _only(refs: Sequence[Sequence[str]], hyps: Sequence[str]) -> Sequence[str]:
    """The only reference, since a sentence has one tree."""
    if len(refs) != 1:
        raise ConfigError(f"metric evalb: {len(refs)} references are given, expected one; a sentence has one tree")
    if len(refs[0]) != len(hyps) or not hyps:
        raise DataError(f"{len(hyps)} trees to score, but {len(refs[0])} in the reference; give as many, one a line")
    return refs[0]


def _f1(sums: NDArray[np.float64]) -> float:
    """F1 from the numbers of matched, reference's and predicted brackets [3]."""
    matched, gold, test = sums
    return float(200 * matched / (gold + test)) if gold + test else 0.0


def _precision_and_recall(sums: NDArray[np.float64]) -> dict[str, float]:
    """Of the same three numbers."""
    matched, gold, test = (int(n) for n in sums)
    return {"precision": percent(matched, test), "recall": percent(matched, gold)}


def _summary(totals: Totals) -> dict[str, Any]:
    """The figures of EVALB's summary."""
    return {
        "precision": totals.precision,
        "recall": totals.recall,
        "complete_match": totals.complete,
        "average_crossing": totals.crossing,
        "no_crossing": totals.not_crossing,
        "two_or_less_crossing": totals.few_crossing,
        "tagging_accuracy": totals.tagging,
        "sentences": totals.n_sentences,
        "errors": totals.n_errors,
        "skipped": totals.n_skipped,
    }


def _row(figures: Figures) -> dict[str, Any]:
    """A sentence's row, of counts as EVALB prints them; incomplete if the sentence could not be compared."""
    matched, gold, test = len(figures.matches), len(figures.gold), len(figures.test)
    recall, precision = percent(matched, gold), percent(matched, test)
    return {
        "f1": f1(precision, recall),
        "length": figures.length,
        "status": STATUS[figures.status],
        "recall": recall,
        "precision": precision,
        "matched": matched,
        "gold": gold,
        "test": test,
        "crossing": figures.n_crossing,
        "words": figures.n_words,
        "tags": figures.n_tags,
        "tagging": percent(figures.n_tags, figures.n_words),
        "fault": "; ".join(figures.faults),
    }


def _of_label(of: LabelTotals) -> dict[str, Any]:
    """A label's row."""
    return {**asdict(of), "precision": of.precision, "recall": of.recall, "f1": of.f1}
