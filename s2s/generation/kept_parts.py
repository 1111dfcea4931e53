"""Parts of a text that are copied to its output: placeholders, addresses, numbers, symbols that no token spells."""

from __future__ import annotations

__all__ = ["KeptParts", "Part"]

import unicodedata
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import regex

from s2s.text.words import UNSPACED, atoms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from s2s.text import Span

ENCLOSING = "\u20e3"
"""The key cap of an emoji"""
INVISIBLE = ("Mn", "Me", "Mc", "Cf", "Cc")
"""Categories of characters that only change others"""
WIDTH = r"[-+#0]*+(?:[1-9]\d*+)?"
"""Flags and width of a format such as %05d, without a second way to match a zero"""
PATTERNS = {
    "urls": (
        r"(?:(?:https?|ftps?|file)://|(?<!\w)www\.)"
        rf"(?:\([^\s()]*\)|(?![{UNSPACED}\p{{Hangul}}])[^\s()<>\"“”„«»。、，！？：；）」』】])*(?<![.,;:!?…\]}}'’])"
    ),
    "emails": r"(?<![\w.+-])[\w.+-]+@\w[\w-]*(?:\.\w[\w-]*)+",
    "placeholders": (
        r"\{\{[^{}\s]+\}\}|\$?\{[\w.:,!$-]*\}|\$\[\w+\]|\$\w+\$|\$[A-Za-z_]\w*"  # {0}, {{name}}, ${x}, $[x], $x$, $x
        rf"|%\(\w+\){WIDTH}(?:\.\d+)?[a-zA-Z]"  # %(n)d
        rf"|(?<!%)%(?:\d+\$)?{WIDTH}(?:\.\d+)?(?:hh?|ll?|[Lzjt])?[sdiufFeEgGxXoc@](?![A-Za-z])"  # %s, %1$d, %.2f
        r"|(?<![\d%])%(?:\w+%|[A-Z_]{2,}|\d+(?!\w))"  # %PATH%, %PRODUCTNAME, %1
    ),
    "symbols": r"\((?i:c|r|tm|sm)\)|(?m:[-–—*+](?=[ \t])(?<=^[ \t]*.))",  # the second: of a list
    "numbers": r"(?<![\w.,])[-+]?\d+(?:[.,:\u00a0\u202f']\d+)*(?![\w])",
}


class Part(NamedTuple):
    """Characters of a text, up to `end`."""

    begin: int
    end: int
    is_unknown: bool = False
    """Whether the vocabulary cannot spell it"""
    is_given: bool = False
    """Whether the output has it in any case, in its prefix or a phrase"""

    def behind(self, n_characters: int) -> Part:
        """The same part where other text stands before."""
        return self._replace(begin=self.begin + n_characters, end=self.end + n_characters)


class KeptParts:
    """Finds the parts of a text that are kept."""

    def __init__(self, kinds: Collection[str], covers: Callable[[str], bool]) -> None:
        """kinds: as the option `keep`. covers: whether the vocabulary spells a text."""
        patterns = [PATTERNS[kind] for kind in PATTERNS if kind in kinds]
        self.pattern = regex.compile("|".join(f"(?:{one})" for one in patterns)) if patterns else None
        self.finds_symbols, self.covers = "symbols" in kinds, covers
        self.unknown = lru_cache(maxsize=100_000)(self._unknown)

    def __call__(self, text: str, spans: Iterable[Span] = ()) -> list[Part]:
        """The parts of a text, in order and disjoint: kept elements among `spans`, neighbours as one, then what is
        found."""
        parts: list[Part] = []
        for span in spans:
            if span.keep and span.begin < span.end and not (parts and span.begin < parts[-1].end):
                begin = parts.pop().begin if parts and parts[-1].end == span.begin else span.begin
                parts.append(Part(begin, span.end))
        matches = self.pattern.finditer(text) if self.pattern else ()
        return self._with_symbols(text, _with_others(parts, (Part(*match.span()) for match in matches)))

    def _with_symbols(self, text: str, parts: list[Part]) -> list[Part]:
        """The parts, and the words and characters that the vocabulary does not spell."""
        if not self.finds_symbols or self.covers(text):
            return parts
        parts = [part._replace(is_unknown=not self.covers(text[part.begin : part.end])) for part in parts]
        places = ((begin, one) for begin, end, _ in atoms(text) for one in self.unknown(text[begin:end]))
        return _with_others(parts, (Part(at + first, at + last, is_unknown=True) for at, (first, last) in places))

    def _unknown(self, atom: str) -> list[tuple[int, int]]:
        """What the vocabulary does not spell of a word or a character: all, if it spells no letter, or if this is a
        picture of one, as 1️⃣ is; else letters of scripts of which it spells none in this word."""
        letters = [letter for letter in atom if unicodedata.category(letter) not in INVISIBLE]
        if not letters or self.covers(atom):
            return []
        known = {_script(letter) for letter in letters if self.covers(letter)}
        if ENCLOSING in atom or not known:
            return [(0, len(atom))]
        foreign = (n for n, letter in enumerate(atom) if letter.isalpha() and _script(letter) not in known)
        return [(n, n + 1) for n in foreign]


def _script(letter: str) -> str:
    """The first word of its name, such as LATIN."""
    return unicodedata.name(letter, "").partition(" ")[0]


def _with_others(parts: list[Part], others: Iterable[Part]) -> list[Part]:
    """The parts, and those others that overlap with none of them; both in order and disjoint."""
    begins = [part.begin for part in parts]

    def is_free(part: Part) -> bool:
        n = bisect_left(begins, part.end)
        return n == 0 or parts[n - 1].end <= part.begin

    return sorted([*parts, *filter(is_free, others)])
