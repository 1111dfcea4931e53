"""Signs that an output does not match its input: copies, repetition, odd lengths, missing numbers.

They are signs, not verdicts: a name may be copied correctly, and a reference may write a number as a word.
"""

from __future__ import annotations

__all__ = ["FLAGS", "flags_of", "length_ratio"]

import itertools
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FLAGS = {
    "copy": "most of the source is copied, and the reference does not",
    "repetition": "words are repeated, and the reference does not",
    "length": "less than half or more than twice as long as the reference",
    "numbers": "a number of the source is missing, which the reference has",
    "empty": "nothing was written",
}
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
COPIED = 0.8
"""Minimum share of the output's words that also occur in the source"""
REPEATED = 3
"""Minimum consecutive occurrences of a word or a pair of words"""


def flags_of(src: str, hyp: str, ref: str) -> list[str]:
    """The keys of `FLAGS` that apply."""
    if not hyp.strip():
        return ["empty"] if ref.strip() else []
    flags = {
        "copy": len(hyp.split()) > 3 and _copied(src, hyp) >= COPIED > _copied(src, ref),
        "repetition": _repeated(hyp) >= REPEATED > _repeated(ref),
        "length": not 0.5 <= length_ratio(hyp, ref) <= 2,
        "numbers": bool(_numbers(src) & _numbers(ref) - _numbers(hyp)),
    }
    return [name for name, is_so in flags.items() if is_so]


def length_ratio(hyp: str, ref: str) -> float:
    """Words of the output over words of the reference."""
    return len(hyp.split()) / max(len(ref.split()), 1)


def _copied(src: str, hyp: str) -> float:
    words, src_counts = hyp.split(), Counter(src.split())
    return sum((Counter(words) & src_counts).values()) / max(len(words), 1)


def _repeated(text: str) -> int:
    """Maximum number of consecutive occurrences of a word or a pair of words."""
    words = text.split()
    return max(
        (_longest([words[i : i + n] for i in range(s, len(words) - n + 1, n)]) for n in (1, 2) for s in range(n)),
        default=0,
    )


def _longest(grams: Sequence[Sequence[str]]) -> int:
    most = run = 1 if grams else 0
    for before, gram in itertools.pairwise(grams):
        run = run + 1 if gram == before else 1
        most = max(most, run)
    return most


def _numbers(text: str) -> set[str]:
    return set(NUMBER.findall(text))
