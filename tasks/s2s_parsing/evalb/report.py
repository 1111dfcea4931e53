"""Figures in EVALB's own layout, character for character, and a table of labels, which EVALB does not have."""

from __future__ import annotations

__all__ = ["TooManyErrors", "label_table", "report"]

import math
from typing import TYPE_CHECKING

from s2s_parsing.evalb.totals import LabelTotals, Totals, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from s2s_parsing.evalb.scoring import Figures

HEAD = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
"""
RULE = "=" * 76 + "\n"


class TooManyErrors(Exception):  # noqa: N818  an outcome
    """EVALB gives up here, without a summary."""


def report(
    all_figures: Iterable[Figures], cutoff: int, max_error: int, complain: Callable[[str], object]
) -> Iterator[str]:
    """EVALB's standard output, a line or a block at a time; `complain` receives what goes to its error stream."""
    everything, short = Totals(), Totals()
    n_faults = 0
    yield HEAD + RULE
    for number, figures in enumerate(all_figures, 1):
        for fault in figures.faults:
            complain(f"{number} : {fault}\n")
            n_faults += 1
            if n_faults > max_error + 1:
                raise TooManyErrors
        everything.add(figures)
        if figures.length <= cutoff:
            short.add(figures)
        yield _row(number, figures)
    yield RULE + _sums(everything) + "=== Summary ===\n"
    yield f"\n-- All --\n{_summary(everything)}"
    yield f"\n-- len<={cutoff} --\n{_summary(short)}"


def _row(number: int, figures: Figures) -> str:
    matched, gold, test = len(figures.matches), len(figures.gold), len(figures.test)
    return (
        f"{number:4d}  {figures.length:3d}    {figures.status}"
        f"  {percent(matched, gold):6.2f} {percent(matched, test):6.2f}"
        f"   {matched:3d}    {gold:3d}  {test:3d}    {figures.n_crossing:3d}"
        f"   {figures.n_words:4d}  {figures.n_tags:4d}   {percent(figures.n_tags, figures.n_words):6.2f}\n"
    )


def _sums(totals: Totals) -> str:
    brackets = (
        f"{'':16}{totals.recall:6.2f} {totals.precision:6.2f} {totals.n_matched:6d} {totals.n_gold:5d}"
        f" {totals.n_test:5d}  {totals.n_crossing:5d}"
    )
    tags = f"  {totals.n_words:5d} {totals.n_tags:5d}   {totals.tagging:6.2f}\n"
    return brackets + tags if totals.n_gold and totals.n_test else tags


def _summary(totals: Totals) -> str:
    f1 = totals.f1 if totals.n_matched else math.nan  # EVALB divides by zero there
    return (
        f"Number of sentence        = {totals.n_sentences:6d}\n"
        f"Number of Error sentence  = {totals.n_errors:6d}\n"
        f"Number of Skip  sentence  = {totals.n_skipped:6d}\n"
        f"Number of Valid sentence  = {totals.n_valid:6d}\n"
        f"Bracketing Recall         = {totals.recall:6.2f}\n"
        f"Bracketing Precision      = {totals.precision:6.2f}\n"
        f"Bracketing FMeasure       = {f1:6.2f}\n"
        f"Complete match            = {totals.complete:6.2f}\n"
        f"Average crossing          = {totals.crossing:6.2f}\n"
        f"No crossing               = {totals.not_crossing:6.2f}\n"
        f"2 or less crossing        = {totals.few_crossing:6.2f}\n"
        f"Tagging accuracy          = {totals.tagging:6.2f}\n"
    )


def label_table(labels: Mapping[str, LabelTotals]) -> str:
    """Precision, recall and F1 of each label, the most frequent first."""
    width = max(map(len, [*labels, "label"]))
    rows = [f"{'label':<{width}}   gold   test  right  Recal   Prec.     F1\n"]
    for label, of in labels.items():
        counts = f"{of.n_gold:5d}  {of.n_test:5d}  {of.n_right:5d}"
        rows.append(f"{label:<{width}}  {counts}  {of.recall:6.2f} {of.precision:6.2f} {of.f1:6.2f}\n")
    return "".join(rows)
