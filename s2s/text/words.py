"""The smallest parts of a text that markup may surround: words, and other characters with all that belongs to them."""

from __future__ import annotations

__all__ = ["CLOSING", "OPENING", "UNSPACED", "Atom", "atoms", "is_unspaced"]

from typing import TYPE_CHECKING, NamedTuple

from s2s.text.lazy_pattern import LazyPattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OPENING = "([{«„‚¿¡（［｛「『【《〈"
"""Punctuation that no blank follows"""
CLOSING = ".,;:!?…)]}»”’。，、；：！？）］｝」』】》〉"
"""Punctuation that no blank precedes"""
UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}々〆〇ー"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Javanese}\p{Balinese}\p{Tai_Tham}\p{New_Tai_Lue}\p{Tai_Viet}"
)
"""Letters of scripts without blanks between words: what stands between brackets in a pattern of `regex`"""
KEYCAP = r"[0-9#*]\ufe0f?\u20e3"
"""An emoji"""
LETTER = rf"(?!{KEYCAP})[[\p{{L}}\p{{N}}_]--[{UNSPACED}]]"
MARKS = r"[\p{M}\u00ad\u200c\u200d]*"
JOINERS = r"(?:(?<=\p{L}\p{M}*)['’ʼ·.](?=\p{L})|(?<=\p{N})[.,](?=\p{N}))"
"""Punctuation between two letters or two digits that does not end a word, as in UAX #29"""
WORD = rf"(?:{LETTER}{MARKS})+(?:{JOINERS}(?:{LETTER}{MARKS})+)*"
ATOM = LazyPattern(rf"(?V1)(?P<word>{WORD})|(?P<unspaced>(?:[{UNSPACED}]{MARKS})+)|(?!\s)\X")
LETTER_OF_UNSPACED = LazyPattern(rf"[{UNSPACED}]")
GRAPHEME = LazyPattern(r"\X")


class Atom(NamedTuple):
    """A word, a part of a text without blanks, or another character with its marks; never white space."""

    begin: int
    end: int
    is_word: bool


def atoms(text: str, cuts: Iterable[int] = ()) -> list[Atom]:
    """Those of a text, in order. cuts: where words may end in scripts without blanks, such as the ends of tokens."""
    return list(_atoms(text, set(cuts)))


def is_unspaced(character: str) -> bool:
    """Whether it is a letter of a script without blanks between words."""
    return not character.isascii() and LETTER_OF_UNSPACED.match(character) is not None


def _atoms(text: str, cuts: set[int]) -> Iterator[Atom]:
    for match in ATOM.finditer(text):
        begin, end = match.span()
        if match.lastgroup == "unspaced":
            for cut in (one.start() for one in GRAPHEME.finditer(text, begin, end)):
                if cut in cuts and cut > begin:
                    yield Atom(begin, cut, is_word=True)
                    begin = cut
        yield Atom(begin, end, is_word=match.lastgroup is not None)
