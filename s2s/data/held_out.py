"""Training text that stands in a development or test set, found whatever its case, punctuation and spacing.

A text is compared by its letters and digits alone. One side of a pair is enough, on either side of the other pair: a
sentence that was trained on from another language, or in the other direction, is known to the model, too. That is not
so of a short text, such as "Yes.", which stands in both by chance: it counts only where all of its pair does.
"""

from __future__ import annotations

__all__ = ["HeldOutTexts", "n_letters", "normalized"]

import re
from typing import TYPE_CHECKING
from unicodedata import east_asian_width, normalize

from s2s.data.columns import column
from s2s.task import Example

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.task import Rejected

NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())
OTHERS = re.compile(r"[\W_]+")
PER_WIDE = 2
"""Letters that a wide character counts as: a Chinese or Japanese text has about half as many as an English one"""


def normalized(text: str) -> str:
    """The letters and digits of a text, in the form NFKC and case-folded, the dotless i as i.

    The usual texts, plain ASCII and those whose only other characters are letters, take a shorter way to the same.
    """
    if text.isascii():
        return text.lower().encode().translate(None, NO_LETTERS).decode()
    folded = normalize("NFKC", text).casefold().replace("ı", "i")  # the capital of both is I
    letters = folded.encode(errors="surrogatepass").translate(None, NO_LETTERS).decode(errors="surrogatepass")
    return letters if letters.isalnum() else OTHERS.sub("", normalize("NFKC", folded))


def n_letters(letters: str) -> int:
    """The length of a normalised text, in which a wide character is PER_WIDE letters."""
    return sum(PER_WIDE if east_asian_width(letter) in "WF" else 1 for letter in letters)


class HeldOutTexts:
    """The texts of development and test sets: a rule by which training pairs are dropped.

    Memory grows with these sets alone.
    """

    def __init__(self, least: int) -> None:
        """least: letters from which on one side alone counts."""
        self.least = least
        self.reasons: dict[str, None] = {}
        """All that the rule may give"""
        self._long: dict[str, str] = {}
        """Normalised text -> reason"""
        self._short: dict[str, dict[str, str]] = {}
        """One normalised text of a pair -> the other -> reason"""

    def add(self, place: str, examples: Iterable[Example | Rejected]) -> None:
        """Add the texts of a set; `place` is its split and name."""
        reason = f"found in {place}"
        self.reasons[reason] = None
        for one in examples:
            if isinstance(one, Example):
                src, tgt = normalized(one.src), normalized(one.tgt)
                for side, other in ((src, tgt), (tgt, src)):
                    if side and n_letters(side) >= self.least:
                        self._long.setdefault(side, reason)
                    elif side and other:
                        self._short.setdefault(side, {}).setdefault(other, reason)

    def __call__(self, examples: Sequence[Example]) -> list[str]:
        """In which set each training pair stands; empty: in none."""
        long, short, reasons = self._long, self._short, list[str]()
        sides = (map(normalized, column(examples, side)) for side in ("src", "tgt"))
        for src, tgt in zip(*sides, strict=True):
            reason = long.get(src) or long.get(tgt)
            reasons.append(reason or (short[src].get(tgt, "") if src in short else ""))
        return reasons
