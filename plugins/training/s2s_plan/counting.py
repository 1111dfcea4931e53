"""The number of distinct items in a stream, in bounded memory.

Adaptive sampling (Wegman; Flajolet, 1990): only keys whose hash begins with `level` zero bits are kept, and `level`
grows by one whenever too many are kept; each kept key stands for 2 ** level. Exact while `level` is 0.
"""

from __future__ import annotations

__all__ = ["DistinctCounter", "hashed"]

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

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
