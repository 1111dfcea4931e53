"""Texts as symbols: bytes, each as the character of that number, or whole tokens where a task's outputs are not its
tokens' texts one after another.
"""

from __future__ import annotations

__all__ = [
    "LONGEST",
    "NEUTRAL",
    "characters",
    "context",
    "inside",
    "is_complete",
    "joins",
    "n_incomplete",
    "symbols_of",
    "token_symbols",
    "without_blanks",
]

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from s2s.text import UNSPACED

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 4
"""Bytes of a character in UTF-8"""
ASCII_END = "\x80"
"""The first symbol that is no character by itself"""
LAST_BYTE = "\xff"
FIRST_BYTES = "\xc0\xe0\xf0"
"""The least with which characters of 2, 3 and 4 bytes begin"""
IN_WORD, OUTSIDE = "\u0100", "\u0101"
"""Symbols, none of them a byte, for any character that is in words, and for any other but a blank"""
NEUTRAL = {"", IN_WORD, OUTSIDE}
"""What `context` gives but a blank, with which a token may begin"""


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


@lru_cache(maxsize=10_000)
def without_blanks(character: str) -> bool:
    """Whether a character, or none, is of a script without blanks between words."""
    if character.isascii():
        return False
    import regex  # which inputs without prefix, phrases and terms do without

    return regex.match(f"[{UNSPACED}]", character) is not None


def inside(symbols: str, at: int) -> bool:
    """Whether a position is within a word; not if the character behind it is still missing or incomplete."""
    before, after = symbols[max(at - LONGEST, 0) : at], symbols[at : at + LONGEST]
    return joins(characters(before)[-1:], characters(after)[:1])


def characters(symbols: str) -> str:
    """The complete characters of bytes."""
    shown = symbols.replace(IN_WORD, "a").replace(OUTSIDE, ".")
    return shown.encode("latin-1").decode(errors="ignore")


def is_complete(symbols: str) -> bool:
    """Whether a text, or an empty one, consists of whole characters as far as its edges show."""
    return n_incomplete(symbols) == 0 and not ASCII_END <= symbols[:1] < FIRST_BYTES[0]


def context(symbols: str) -> str:
    """One symbol for the end of a text of bytes, of which matters only whether it is in a word, or a blank."""
    last = symbols[-1:]
    return last if last in {"", " "} else _class_of_last(last if last < ASCII_END else symbols[-LONGEST:])


@lru_cache(maxsize=10_000)
def _class_of_last(symbols: str) -> str:
    return IN_WORD if _in_word(characters(symbols)[-1:]) else OUTSIDE


def n_incomplete(symbols: str) -> int:
    """Bytes of the last character, if it lacks some; else 0."""
    if symbols[-1:] < ASCII_END:
        return 0
    for n_bytes in range(1, min(LONGEST, len(symbols) + 1)):
        symbol = symbols[-n_bytes]
        if symbol >= FIRST_BYTES[0]:
            n_whole = 0 if symbol > LAST_BYTE else sum(symbol >= first for first in FIRST_BYTES) + 1
            return n_bytes if n_bytes < n_whole else 0
    return 0
