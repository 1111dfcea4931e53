"""Sums over sentences, and the percentages that are computed from them."""

from __future__ import annotations

__all__ = ["LabelTotals", "Totals", "f1", "label_totals", "percent"]

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s_parsing.evalb.scoring import ERROR, SKIPPED, VALID, Figures

if TYPE_CHECKING:
    from collections.abc import Iterable

FEW = 2


@dataclass
class Totals:
    """One summary. Sentences that are not valid are counted, but enter no other figure."""

    n_sentences: int = 0
    n_errors: int = 0
    n_skipped: int = 0
    n_matched: int = 0
    n_gold: int = 0
    n_test: int = 0
    n_complete: int = 0
    """Sentences all of whose brackets agree"""
    n_words: int = 0
    n_tags: int = 0
    n_crossing: int = 0
    n_not_crossing: int = 0
    """Sentences without a crossing bracket"""
    n_few_crossing: int = 0
    """Sentences with two or less"""

    def add(self, figures: Figures) -> None:
        """Count one more sentence."""
        self.n_sentences += 1
        self.n_errors += figures.status == ERROR
        self.n_skipped += figures.status == SKIPPED
        if figures.status != VALID:
            return
        n_matched, n_gold, n_test = len(figures.matches), len(figures.gold), len(figures.test)
        self.n_matched += n_matched
        self.n_gold += n_gold
        self.n_test += n_test
        self.n_complete += n_matched == n_gold == n_test
        self.n_words += figures.n_words
        self.n_tags += figures.n_tags
        self.n_crossing += figures.n_crossing
        self.n_not_crossing += figures.n_crossing == 0
        self.n_few_crossing += figures.n_crossing <= FEW

    @property
    def n_valid(self) -> int:
        """Sentences that count."""
        return self.n_sentences - self.n_errors - self.n_skipped

    @property
    def recall(self) -> float:
        """Brackets of the reference that were found."""
        return percent(self.n_matched, self.n_gold)

    @property
    def precision(self) -> float:
        """Predicted brackets that are of the reference."""
        return percent(self.n_matched, self.n_test)

    @property
    def f1(self) -> float:
        """The harmonic mean of the two."""
        return f1(self.precision, self.recall)

    @property
    def complete(self) -> float:
        """Sentences without a mistake."""
        return percent(self.n_complete, self.n_valid)

    @property
    def crossing(self) -> float:
        """Crossing brackets a sentence."""
        return self.n_crossing / self.n_valid if self.n_valid else 0.0

    @property
    def not_crossing(self) -> float:
        """Sentences without a crossing bracket."""
        return percent(self.n_not_crossing, self.n_valid)

    @property
    def few_crossing(self) -> float:
        """Sentences with two or less."""
        return percent(self.n_few_crossing, self.n_valid)

    @property
    def tagging(self) -> float:
        """Words with the right part of speech."""
        return percent(self.n_tags, self.n_words)


def percent(part: int, whole: int) -> float:
    """100 part / whole, 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0


def f1(precision: float, recall: float) -> float:
    """The harmonic mean, 0 of nothing."""
    both = precision + recall
    return 2 * precision * recall / both if both else 0.0


@dataclass
class LabelTotals:
    """The brackets of one label."""

    n_gold: int = 0
    n_test: int = 0
    n_found: int = 0
    """Of the reference's brackets, those that a predicted one matches"""
    n_right: int = 0
    """Of the predicted brackets, those that match one of the reference; differs from n_found if two labels are equal"""

    @property
    def recall(self) -> float:
        """Brackets of the reference that were found."""
        return percent(self.n_found, self.n_gold)

    @property
    def precision(self) -> float:
        """Predicted brackets that are right."""
        return percent(self.n_right, self.n_test)

    @property
    def f1(self) -> float:
        """The harmonic mean of the two."""
        return f1(self.precision, self.recall)


def label_totals(all_figures: Iterable[Figures]) -> dict[str, LabelTotals]:
    """The totals of each label's brackets in valid sentences, the most frequent label first."""
    gold, test, matched, right = (Counter[str]() for _ in range(4))
    for figures in all_figures:
        if figures.status == VALID:
            gold.update(figures.gold)
            test.update(figures.test)
            matched.update(ours for ours, _ in figures.matches)
            right.update(theirs for _, theirs in figures.matches)
    order = sorted(gold.keys() | test.keys(), key=lambda label: (-gold[label], -test[label], label))
    return {label: LabelTotals(gold[label], test[label], matched[label], right[label]) for label in order}
