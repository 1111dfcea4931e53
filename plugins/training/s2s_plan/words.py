"""The number of words of a line, also in scripts without spaces between words."""

from __future__ import annotations

__all__ = ["count_words"]

import re

UNSPACED = (
    (re.compile("[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"), 2),
    (re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"), 5),
)
"""Characters of a script without spaces, and about how many of them correspond to an English word: Chinese and
Japanese; Thai, Lao, Burmese and Khmer"""


def count_words(line: str) -> int:
    """Words separated by white space, plus, for scripts without spaces, an estimate from the number of characters."""
    estimated = 0
    if not line.isascii():
        for script, per_word in UNSPACED:
            line, n = script.subn(" ", line)
            estimated += -(-n // per_word)
    return len(line.split()) + estimated
