"""Word classes of the grammar: frequent words stand for themselves, others for their shape."""

from __future__ import annotations

__all__ = ["BLANK", "WordClasses", "signature", "split_words"]

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

BLANK = r"\x20\t\n\v\f\r"
"""Characters that separate words: a no-break space is part of a word"""
SUFFIXES = (
    *("ing", "ed", "ly", "ion", "er", "est", "ity", "al", "ness", "ment", "ous", "ive", "able", "ism", "ist"),
    *("ate", "ize", "ic", "ers", "ies", "ss", "us", "is", "s", "y"),
)


def split_words(line: str) -> list[str]:
    """The words of a sentence as the parsing task has them, with brackets escaped as in the Penn Treebank."""
    return re.findall(rf"[^{BLANK}]+", line.replace("(", "-LRB-").replace(")", "-RRB-"))


class WordClasses:
    """Words that occur more than `rare` times in training; rarer ones are replaced by their signature."""

    def __init__(self, known: Iterable[str]) -> None:
        self.known = set(known)

    @classmethod
    def learn(cls, words: Iterable[str], rare: int) -> WordClasses:
        """From the words of all training trees."""
        return cls(word for word, n in Counter(words).items() if n > rare)

    def __call__(self, word: str, position: int) -> str:
        """The class of a word at a position of the sentence; at 0, a capital is less informative."""
        return word if word in self.known else signature(word, first=position == 0)


def signature(word: str, *, first: bool = False) -> str:
    """Capitals, digits, hyphens and the ending, after Petrov et al.'s and Klein and Manning's unknown-word classes."""
    parts = ["UNK"]
    if word[:1].isupper():
        parts.append("INIT" if first else "ALLCAPS" if word.isupper() and len(word) > 1 else "CAP")
    elif any(c.isupper() for c in word):
        parts.append("MIXED")
    if any(c.isdigit() for c in word):
        parts.append("NUM" if not any(c.isalpha() for c in word) else "DIGIT")
    if "-" in word:
        parts.append("DASH")
    if len(word) > 3 and any(c.isalpha() for c in word):
        parts.append(next((s for s in SUFFIXES if word.lower().endswith(s)), ""))
    return "-".join(part for part in parts if part)
