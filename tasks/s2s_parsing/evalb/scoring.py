"""One sentence's figures, as EVALB computes them."""

from __future__ import annotations

__all__ = ["ERROR", "SKIPPED", "VALID", "Figures", "Scorer"]

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from s2s_parsing.evalb.sentence import Sentence, read_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s_parsing.evalb.parameters import Parameters

VALID, ERROR, SKIPPED = range(3)
"""Outcome for a sentence, which is skipped if the prediction has no word that counts."""

Span = tuple[int, int]
FUNCTION = re.compile("[-=]")


@dataclass(slots=True)
class Figures:
    """The counts of one sentence, up to the first error; `Totals` counts those of valid sentences."""

    length: int
    """Words of the reference, to which the cut-off applies"""
    status: int = VALID
    n_words: int = 0
    """Words that count"""
    n_tags: int = 0
    """Words that count and have the right part of speech"""
    n_crossing: int = 0
    """Predicted brackets that cross one of the reference"""
    matches: list[tuple[str, str]] = field(default_factory=list)
    """Labels of the brackets that agree: the reference's, the prediction's"""
    gold: list[str] = field(default_factory=list)
    """Labels of the reference's brackets that count"""
    test: list[str] = field(default_factory=list)
    """Labels of the prediction's brackets that count"""
    faults: list[str] = field(default_factory=list)
    """EVALB's message about the sentence on its error stream"""


class Scorer:
    """Scores sentences by one set of parameters."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.names: dict[str, str | None] = {}
        """Cache, since there are few: labels as they are compared; None for those of brackets that do not count."""

    def __call__(self, gold_line: str, test_line: str) -> Figures:
        """Compare a prediction with its reference."""
        gold, test = (read_sentence(line, self.parameters) for line in (gold_line, test_line))
        figures = Figures(gold.length, faults=gold.faults + test.faults)
        figures.status = ERROR if figures.faults else VALID
        if gold.broken or test.broken:
            return figures
        if not test.words:
            figures.status = SKIPPED
            return figures
        difference = self._difference(gold, test)
        if difference:
            figures.faults.append(difference)
            figures.status = ERROR
            return figures
        self._compare(figures, gold, test)
        return figures

    def labels(self, line: str) -> list[str]:
        """Labels of the brackets of a line that count."""
        return [label for label, _ in self._counting(read_sentence(line, self.parameters))]

    def _difference(self, gold: Sentence, test: Sentence) -> str | None:
        """How the words differ after quotation marks are repaired; None if they do not."""
        if len(gold.words) != len(test.words):
            _mend_quotes(gold, test, self.parameters.deleted)
        if len(gold.words) != len(test.words):
            return f"Length unmatch ({len(gold.words)}|{len(test.words)})"
        equal = self.parameters.equal_words
        for ours, theirs in zip(gold.words, test.words, strict=True):
            if ours != theirs and (ours, theirs) not in equal:
                return f"Words unmatch ({ours}|{theirs})"
        return None

    def _compare(self, figures: Figures, gold: Sentence, test: Sentence) -> None:
        """Count brackets and parts of speech."""
        gold_brackets, test_brackets = list(self._counting(gold)), list(self._counting(test))
        figures.gold = [label for label, _ in gold_brackets]
        figures.test = [label for label, _ in test_brackets]
        figures.matches = self._matches(gold_brackets, test_brackets)
        figures.n_crossing = _n_crossing({span for _, span in gold_brackets}, [span for _, span in test_brackets])
        figures.n_words = len(gold.words)
        figures.n_tags = sum(map(self._equal, gold.tags, test.tags))

    def _counting(self, sentence: Sentence) -> Iterator[tuple[str, Span]]:
        """Labels as they are compared and spans of the brackets that count, in the order in which they open."""
        names = self.names
        for bracket in sentence.brackets:
            if bracket.start == bracket.end:
                continue
            if bracket.label not in names:
                names[bracket.label] = self._name(bracket.label)
            name = names[bracket.label]
            if name is not None:
                yield name, (bracket.start, bracket.end)

    def _name(self, label: str) -> str | None:
        """The label without function tags, which begin at any - or =, even the first letter; None if left out."""
        name = FUNCTION.split(label, maxsplit=1)[0]
        return None if any(self._equal(name, deleted) for deleted in self.parameters.deleted) else name

    def _matches(self, gold: Sequence[tuple[str, Span]], test: Sequence[tuple[str, Span]]) -> list[tuple[str, str]]:
        """Each bracket of the reference, in turn, takes the first remaining one with the same span and label."""
        left = defaultdict[Span, list[str]](list)
        for label, span in test:
            left[span].append(label)
        matches = []
        for label, span in gold:
            for i, other in enumerate(left.get(span, ())):
                if self._equal(label, other) or not self.parameters.labelled:
                    matches.append((label, left[span].pop(i)))
                    break
        return matches

    def _equal(self, ours: str, theirs: str) -> bool:
        return ours == theirs or (ours, theirs) in self.parameters.equal_labels


def _n_crossing(gold: set[Span], test: Sequence[Span]) -> int:
    """Number of predicted brackets that cross some bracket of the reference; those in the reference cross none."""
    return sum(
        any(start < s < end < e or s < start < e < end for start, end in gold) for s, e in test if (s, e) not in gold
    )


def _mend_quotes(gold: Sentence, test: Sentence, deleted: frozenset[str]) -> None:
    """Put back quotation marks that only one side has left out.

    As in EVALB, a mark directly after another may be taken for it and put back twice.
    """
    for theirs in test.quotes:
        index = theirs.index
        for ours in gold.quotes:
            if ours.index != index or ours.tag == theirs.tag:
                continue
            if ours.tag in deleted and theirs.tag not in deleted:
                gold.put_back(ours)
            elif theirs.tag in deleted and ours.tag not in deleted:
                test.put_back(theirs)
