"""The texts of tokens, and the tokens that can spell a text.

A text here is a string of symbols: bytes, each as the character of that number, or whole tokens where a task's outputs
are not its tokens' texts one after another (`Spelling.tokens`).
"""

from __future__ import annotations

__all__ = ["Spelling", "joins", "symbols_of", "token_symbols", "without_blanks"]

import unicodedata
from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BLANKLESS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""Scripts without blanks between words, as in the names of their characters"""
N_KEPT = 10_000
"""Texts whose next tokens are kept"""


def symbols_of(spelling: bytes) -> str:
    """The bytes of a text as symbols."""
    return spelling.decode("latin-1")


def token_symbols(tokens: Iterable[int]) -> str:
    """Tokens as symbols, where each is one."""
    return "".join(map(chr, tokens))


def joins(before: str, after: str) -> bool:
    """Whether two characters side by side are within one word; empty: the edge of a text, which joins nothing."""
    return all(map(_in_word, (before, after)))


def _in_word(character: str) -> bool:
    if not (character.isalnum() or unicodedata.category(character or " ").startswith("M")):
        return False
    return not without_blanks(character)


def without_blanks(character: str) -> bool:
    """Whether a character, or none, is of a script without blanks between words."""
    return unicodedata.name(character, "").startswith(BLANKLESS) if character else False


class Spelling:
    """The symbols of every token of a vocabulary."""

    def __init__(self, texts: Sequence[str], *, tokenwise: bool = False) -> None:
        """Texts by token; empty: the token spells nothing, as special ones do. tokenwise: symbols are tokens."""
        self.texts, self.tokenwise = texts, tokenwise
        self.longest = max(map(len, texts), default=0)
        self._sorted = sorted((text, i) for i, text in enumerate(texts) if text)
        self._ids: dict[str, list[int]] = {}
        for text, i in self._sorted:
            self._ids.setdefault(text, []).append(i)
        self._continuing: dict[str, list[int]] = {}

    @classmethod
    def tokens(cls, n: int) -> Spelling:
        """Of n tokens that are one symbol each."""
        return cls([chr(i) for i in range(n)], tokenwise=True)

    @cached_property
    def beginning_outside(self) -> list[int]:
        """The tokens whose first character continues no word."""
        first = ((i, text.encode("latin-1").decode(errors="ignore")[:1]) for text, i in self._sorted if text)
        return [i for i, character in first if character and not joins("a", character)]

    def continuing(self, rest: str) -> list[int]:
        """The tokens that begin with `rest`, or begin it and leave what further tokens can spell; none: no tokens can.

        The last word of `rest` is open: the token that completes it may go on.
        """
        if rest not in self._continuing:
            if len(self._continuing) > N_KEPT:
                self._continuing.clear()
            self._fill(rest)
        return self._continuing[rest]

    def _fill(self, rest: str) -> None:
        """Find the tokens for every end of `rest`, the shortest first: a token is possible if what it leaves is."""
        for begin in reversed(range(len(rest))):
            end = rest[begin:]
            lengths = range(1, min(self.longest, len(end) - 1) + 1)
            within = (self._ids[end[:n]] for n in lengths if end[:n] in self._ids and self.continuing(end[n:]))
            self._continuing[end] = [*(i for ids in within for i in ids), *self._beginning_with(end)]

    def _beginning_with(self, text: str) -> list[int]:
        first = bisect_left(self._sorted, (text, -1))
        last = bisect_left(self._sorted, (text + "\U0010ffff", -1), lo=first)
        return [i for _, i in self._sorted[first:last]]
