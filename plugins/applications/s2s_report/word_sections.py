"""Sections about words: how well those of each frequency are translated, and which n-grams make the difference.

Both as in compare-mt (Neubig et al., 2019).
"""

from __future__ import annotations

__all__ = ["ngram_section", "word_section"]

from bisect import bisect_right
from typing import TYPE_CHECKING

from s2s.metrics import bootstrap, interval
from s2s_report.document import Details, Section, Table, Text
from s2s_report.outcome import FREQUENCIES, bucket_names
from s2s_report.text_words import count_ngrams, f1, matched_ngrams, matches_by_bucket

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from s2s_report.document import Block
    from s2s_report.outcome import DataStatistics, Outcome
    from s2s_report.text_words import Ngram

SEED = 12345
SMOOTHING = 1.0
"""Added to the counts of an n-gram, so that a single occurrence is not the largest difference"""


def word_section(outcome: Outcome, statistics: DataStatistics, samples: int) -> Section:
    """F1 of the words of each frequency: shared by outputs and references, among all that either has."""
    frequency, refs = statistics.words["tgt"], [example.tgt for example in outcome.examples]

    def bucket_of(word: str) -> int:
        return bisect_right(FREQUENCIES, frequency[word]) - 1

    n = len(FREQUENCIES)
    counts = {name: matches_by_bucket(outcome.hyps(name), refs, bucket_of, n) for name in outcome.outputs}
    rows = []
    for i, bucket in enumerate(bucket_names(FREQUENCIES)):
        n_words = int(next(iter(counts.values()))[i, :, 2].sum())
        if n_words:
            cells = [_with_interval(of_run[i], samples) for of_run in counts.values()]
            rows.append([bucket, f"{n_words:,}", *cells])
    head = [f"occurrences in {statistics.place}", "words of the references", *(f"{name}: F1" for name in counts)]
    return Section("Words by frequency", [Table(head, rows, range(1, len(head)))])


def _with_interval(counts: NDArray[np.float64], samples: int) -> str:
    value = f"{f1(counts.sum(0)):.1f}"
    if not samples:
        return value
    low, high = interval(bootstrap(counts, f1, samples, SEED))
    return f"{value} [{low:.1f}, {high:.1f}]"


def ngram_section(outcome: Outcome, shown: int) -> Section:
    """The n-grams that one run has right more often than another; of a single run, those that it writes too often."""
    refs = [example.tgt for example in outcome.examples]
    base, *others = outcome.outputs
    if not others:
        written = count_ngrams(outcome.hyps(base))
        expected = count_ngrams(refs)
        names = (base, "references")
        blocks: list[Block] = [
            Details("Written too often", [_table(written, expected, names, shown)]),
            Details("Written too rarely", [_table(expected, written, names[::-1], shown)]),
        ]
        return Section("N-grams", blocks)
    right = {name: matched_ngrams(outcome.hyps(name), refs) for name in outcome.outputs}
    blocks = [Text("How often an n-gram of an output is in its reference, too.")]
    for name in others:
        for one, other in ((name, base), (base, name)):
            table = _table(right[one], right[other], (one, other), shown)
            blocks.append(Details(f"{one} has right, and {other} less often", [table]))
    return Section("N-grams", blocks)


def _table(more: Counter[Ngram], less: Counter[Ngram], names: Sequence[str], shown: int) -> Table:
    """The n-grams of which the largest share of occurrences is in `more`."""
    rows = [[" ".join(ngram), f"{more[ngram]:,}", f"{less[ngram]:,}"] for ngram in _ranked(more, less)]
    return Table(["n-gram", *names], rows[:shown], (1, 2))


def _ranked(more: Counter[Ngram], less: Counter[Ngram]) -> list[Ngram]:
    """Those that occur more often in `more`, the largest smoothed shares first."""

    def share(ngram: Ngram) -> float:
        return (more[ngram] + SMOOTHING) / (more[ngram] + less[ngram] + 2 * SMOOTHING)

    return sorted((ngram for ngram in more if more[ngram] > less[ngram]), key=lambda one: (-share(one), one))
