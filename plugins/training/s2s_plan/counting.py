"""Counts of a text: its words, also in scripts without spaces between them, and its distinct items.

Distinct items are counted in bounded memory by adaptive sampling (Wegman; Flajolet, 1990): only keys whose hash begins
with `level` zero bits are kept, and `level` grows by one whenever too many are kept; each kept key stands for
2 ** level. Exact while `level` is 0.
"""

from __future__ import annotations

__all__ = ["DistinctCounter", "count_words", "hashed", "union"]

from collections import Counter
from typing import TYPE_CHECKING
from unicodedata import east_asian_width
from zlib import crc32

import regex

from s2s.text import UNSPACED

if TYPE_CHECKING:
    from collections.abc import Iterable

UNSPACED_LETTERS = regex.compile(f"[{UNSPACED}]+")
PER_WORD = {True: 2, False: 5}
"""About how many characters of a script without spaces correspond to an English word: of Chinese and Japanese, whose
characters are wide, and of others"""


def count_words(line: str) -> int:
    """Words separated by white space, plus, for scripts without spaces, an estimate from the number of characters."""
    if line.isascii():
        return len(line.split())
    letters = "".join(UNSPACED_LETTERS.findall(line))
    counts = Counter(east_asian_width(letter) == "W" for letter in letters)
    estimated = sum(-(-n // PER_WORD[is_wide]) for is_wide, n in counts.items())
    return len(UNSPACED_LETTERS.sub(" ", line).split()) + estimated


MOST = 1 << 16
"""Maximum number of keys kept: the standard error is then 1.2 / sqrt(MOST), half a percent"""
ODD, MASK, BITS = 0x9E37_79B9_7F4A_7C15, (1 << 64) - 1, 64


def hashed(src: str, tgt: str = "") -> int:
    """A 64-bit hash of one text or of a pair, the same in every process."""
    key = crc32(src.encode(errors="replace")) | crc32(tgt.encode(errors="replace"), 0x5BD1E995) << 32
    key = (key ^ key >> 29) * ODD & MASK  # mix both halves into the leading bits, which decide the sampling
    return (key ^ key >> 32) * ODD & MASK


class DistinctCounter:
    """Counts the distinct keys among those added."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.level = 0
        self.kept: set[int] = set()

    def add(self, keys: Iterable[int]) -> None:
        """Add these 64-bit keys to the count."""
        shift = BITS - self.level
        self.kept.update(keys if self.level == 0 else (key for key in keys if key >> shift == 0))
        while len(self.kept) > self.most:
            self.level += 1
            self.kept = {key for key in self.kept if key >> (BITS - self.level) == 0}

    def __len__(self) -> int:
        return len(self.kept) << self.level


def union(one: DistinctCounter, other: DistinctCounter) -> DistinctCounter:
    """The distinct keys of both."""
    both = DistinctCounter(min(one.most, other.most))
    both.level = max(one.level, other.level)
    both.add(one.kept)
    both.add(other.kept)
    return both
