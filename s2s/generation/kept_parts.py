"""Parts of a text that are copied to its output: placeholders, addresses, numbers, symbols that no token spells."""

from __future__ import annotations

__all__ = ["KeptParts", "Part"]

import unicodedata
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from s2s.generation.kept_patterns import GATE, PATTERNS
from s2s.generation.paired_parts import pairs
from s2s.text.lazy_pattern import LazyPattern
from s2s.text.words import atoms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Set

    from s2s.generation.kept_patterns import Pattern
    from s2s.text import Span

ENCLOSING = "\u20e3"
"""The key cap of an emoji"""
INVISIBLE = ("Mn", "Me", "Mc", "Cf", "Cc")
"""Categories of characters that only change others"""


class Part(NamedTuple):
    """Characters of a text, up to `end`."""

    begin: int
    end: int
    is_unknown: bool = False
    """Whether the vocabulary cannot spell it"""
    is_given: bool = False
    """Whether the output has it in any case, in its prefix or a phrase"""
    is_apart: bool = False
    """Whether it is no word of a sentence, such as a tag or the number of an item"""
    pair: int = 0
    """Of parts that enclose others, as brackets do: a number at the opening one, its negative at the closing one"""

    @property
    def is_decoded(self) -> bool:
        """Whether a model may read it."""
        return not self.is_unknown and not self.is_apart

    def behind(self, n_characters: int) -> Part:
        """The same part where other text stands before."""
        return self._replace(begin=self.begin + n_characters, end=self.end + n_characters)


class KeptParts:
    """Finds the parts of a text that are kept."""

    def __init__(self, kinds: Collection[str], covers: Callable[[str], bool]) -> None:
        """kinds: as the option `keep`. covers: whether the vocabulary spells a text."""
        self.patterns = [one for one in PATTERNS if one.kind in kinds]
        either = "|".join(f"({one.regex})" for one in self.patterns)
        self.regex = LazyPattern(f"(?V1)(?-f:{either})")  # -f: full case folding takes a third of the compilation
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
        found = self._found(text) if self.patterns and GATE.search(text) else []
        quotes = {part.begin for part, pattern in found if pattern.is_quote}
        parts = self._with_symbols(text, _with_others(parts, (part for part, _ in found)))
        return _paired(text, parts, quotes) if len(parts) > 1 or quotes else parts

    def _found(self, text: str) -> list[tuple[Part, Pattern]]:
        found = []
        for match in self.regex.finditer(text):
            pattern = self.patterns[(match.lastindex or 1) - 1]
            begin = match.end() - len(match.group().lstrip())
            found.append((Part(begin, match.end(), is_apart=pattern.is_apart), pattern))
        return found

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
        if "_" in atom and not self.covers("_"):  # emphasis, as in __word__
            known.discard(_script("_"))
        foreign = (letter.isalpha() or letter == "_" for letter in atom)
        return [(n, n + 1) for n, is_one in enumerate(foreign) if is_one and _script(atom[n]) not in known]


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


def _paired(text: str, parts: list[Part], quotes: Set[int]) -> list[Part]:
    """The parts, those of a pair with its number; without quotes (given by where they begin) that have no partner."""
    for number, (i, j) in enumerate(pairs(text, [part[:2] for part in parts]), 1):
        is_apart = not (parts[i].is_decoded and parts[j].is_decoded)
        for k, pair in ((i, number), (j, -number)):
            parts[k] = parts[k]._replace(pair=pair, is_apart=is_apart)
    return [part for part in parts if part.pair or part.is_unknown or part.begin not in quotes]
