"""Finds outermost brackets that only wrap a tree and that one side alone has: EVALB counts most of them as missed."""

from __future__ import annotations

__all__ = ["unmatched_wrappers"]

import re
from collections import Counter
from typing import TYPE_CHECKING

from s2s_parsing.treebank.brackets import BLANK, WRAPPERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s_parsing.evalb.scoring import Scorer

OUTERMOST = re.compile(rf"[{BLANK}]*\(([^{BLANK}()]*)")


def unmatched_wrappers(gold: Sequence[str], test: Sequence[str], scorer: Scorer) -> Counter[str]:
    """Numbers of trees by the label of such a bracket, of those labels that the scorer's parameters count."""
    counted = {label for label in WRAPPERS if scorer.labels(f"({label} (XX word))")}
    counts: Counter[str] = Counter()
    for lines in zip(gold, test, strict=True):
        labels = {match[1] for match in map(OUTERMOST.match, lines) if match}
        if len(labels) == len(lines):  # both sides have a bracket, and not the same one
            counts.update(labels & counted)
    return counts
