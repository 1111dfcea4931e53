"""Text as people write it, cut into words as the Penn Treebank has them; one line is one sentence."""

from __future__ import annotations

__all__ = ["words_of_text"]

import re

SIGNS = str.maketrans(
    {"“": "``", "„": "``", "«": "``", "”": "''", "»": "''", "‘": "`", "’": "'", "…": "...", "–": "--", "—": "--"}
)
"""Signs that the treebank, which is ASCII, writes otherwise"""
INSIDE = re.compile(r"(?<=\w)&(?=\w)")
AND = "\ue000"  # no text has this character, and the tokeniser leaves it alone
ABBREVIATED = re.compile(r"(?:\w\.)+\w|Inc|Corp|Co|Ltd|Bros|Jr|Sr|etc", re.ASCII)


def words_of_text(line: str) -> list[str]:
    """The words of a raw sentence, by nltk's Treebank tokeniser.

    What it cuts and the treebank does not is put together again: `AT&T`, and the full stop of an abbreviation at the
    end, behind which the sentence has one of its own.
    """
    from nltk.tokenize import NLTKWordTokenizer  # a quarter of a second, of no use to training

    text = INSIDE.sub(AND, line.translate(SIGNS))
    words = [word.replace(AND, "&") for word in NLTKWordTokenizer().tokenize(text, convert_parentheses=True)]
    if len(words) > 1 and words[-1] == "." and ABBREVIATED.fullmatch(words[-2]):
        words[-2] += "."
    return words
