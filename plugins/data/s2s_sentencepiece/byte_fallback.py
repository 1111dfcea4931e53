"""Whether a corpus asks for bytes: by how often a new line would have a character that no line before it had.

The number of characters that occurred once in n lines, over n, is the expected number of new ones in one more line
(Good, 1953). By it, one line in 1,000 of LibreOffice's help has one, and one in 200 of news, but only one in 10,000 of
captions (Multi30k) and of everyday sentences (Tatoeba).
"""

from __future__ import annotations

__all__ = ["ByteFallback"]

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, Self

from s2s_sentencepiece import LEAST_COVERAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

N_LINES = 200_000
"""About as many lines are counted"""
NEW_CHARACTERS = 1 / 2000
"""Expected new characters in a line, above which bytes are worth their tokens"""
LEAST_SIZE = 8 * 256
"""Smallest vocabulary that spares 256 tokens"""
RARE = 2
"""Characters that occur so often at most are spelt in bytes, which training would otherwise never see"""


class ByteFallback(NamedTuple):
    """What a vocabulary is learnt with."""

    is_on: bool
    coverage: float
    """Share of the characters that get a token of their own"""

    @classmethod
    def decide(cls, lines: Sequence[str], size: int, requested: bool | None, coverage: float) -> Self:
        """As requested, or by the lines; then rare characters have no tokens, so that training sees bytes."""
        if requested is not None or size < LEAST_SIZE:
            return cls(bool(requested), coverage)
        counts, counted = Counter[str](), lines[:: max(1, len(lines) // N_LINES)]
        for line in counted:
            counts.update(line)
        n_new = sum(count == 1 for count in counts.values()) / max(1, len(counted))
        if n_new <= NEW_CHARACTERS:
            return cls(is_on=False, coverage=coverage)
        n_rare = sum(count for count in counts.values() if count <= RARE)
        return cls(is_on=True, coverage=min(coverage, max(LEAST_COVERAGE, 1 - n_rare / counts.total())))
