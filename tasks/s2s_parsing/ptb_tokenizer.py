"""Tokenises ordinary text as in the Penn Treebank; one line is one sentence."""

from __future__ import annotations

__all__ = ["tokenize"]

import re

SIGNS = str.maketrans(
    {"“": "``", "„": "``", "«": "``", "”": "''", "»": "''", "‘": "`", "’": "'", "…": "...", "–": "--", "—": "--"}
)
"""ASCII forms of punctuation, as in the treebank"""
INSIDE = re.compile(r"(?<=\w)&(?=\w)")
AND = "\ue000"  # private use: occurs in no text, and the tokeniser keeps it
ABBREVIATED = re.compile(r"(?:\w\.)+\w|Inc|Corp|Co|Ltd|Bros|Jr|Sr|etc", re.ASCII)


def tokenize(line: str) -> list[str]:
    """The words of a raw sentence, by nltk's Treebank tokeniser.

    Two cases are corrected: `AT&T` stays one word, and a final abbreviation keeps its full stop before the sentence's.
    """
    from nltk.tokenize import NLTKWordTokenizer  # a quarter of a second, not needed for training

    text = INSIDE.sub(AND, line.translate(SIGNS))
    words = [word.replace(AND, "&") for word in NLTKWordTokenizer().tokenize(text, convert_parentheses=True)]
    if len(words) > 1 and words[-1] == "." and ABBREVIATED.fullmatch(words[-2]):
        words[-2] += "."
    return words
