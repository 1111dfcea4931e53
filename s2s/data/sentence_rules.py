"""Sentences by rules: a terminator, what closes after it, and a following character that is no lower-case letter.

Abbreviations, initials, numbers and host names stay whole. White space, symbols and references to notes, such as [1],
between two sentences are outside of both. The rules serve all languages at once; that of the source only decides about
ordinal numbers and Greek questions.
"""

from __future__ import annotations

__all__ = ["RuleSegmenter"]

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from s2s.data.abbreviations import BEFORE_NAMES, BEFORE_NUMBERS, GERMAN_MONTHS, MAY_END, OPENING_WORDS
from s2s.data.segmenter import Segmenter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.registry import Choice

SPACED = ".!?…‥‼⁇⁈⁉‽؟۔।॥։።፧፨᙮᠃᠉߹܀܁܂\u037e"
"""Terminators before white space or a symbol"""
UNSPACED = "。｡！？．။៕។༎"
"""Terminators of scripts that leave no blank between sentences"""
CLOSING = "\"'”’“‘»›«‹)]}」』）】》〉〕＂＇*_"
ANY = re.compile(f"[{SPACED}{UNSPACED};]")
END = re.compile(
    rf"""
    [{SPACED}{UNSPACED};]+
    (?: [{re.escape(CLOSING)}]+ [{SPACED}{UNSPACED}]* )*
    (?: [ \u00a0\u202f] [”’»›] (?=\s|$) )*  # French quotes close after a blank
    (?P<notes> (?: \[[^\W_]{{1,4}}\] | \(\d{{1,3}}\) | [⁰¹²³⁴-⁹]+ )* )  # references, which are copied
    """,
    re.VERBOSE,
)
PUNCTUATION = re.compile(r"(?:[^\w\s]|_)+")
WORD = re.compile(r"\w+")
DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
ROMAN = re.compile(r"[IVX]+")
OPENING = frozenset("\"'“„«‘‚‹([{¿¡「『（【《〈〔")
"""Punctuation that begins a sentence, also before a blank"""
DASHES = frozenset("–—―‒")
BEFORE_WORDS = frozenset("([{\"'“„«‘")
"""Punctuation that is no part of the word behind it"""
LONGEST = 32
"""Characters of a word that may be an abbreviation"""
QUOTED = ("と", "って", "、")
"""What continues a sentence after a quotation in Japanese"""


class Span(NamedTuple):
    """Characters of a text, up to `end`."""

    begin: int
    end: int


class RuleSegmenter(Segmenter):
    """Sentences end at punctuation that the next word confirms; abbreviations, numbers and host names stay whole."""

    def __init__(self, config: Choice, language: str) -> None:
        self.has_ordinals = language.lower()[:2] in ("de", "da", "no", "nb", "nn", "fi", "et", "hu", "cs", "sk", "lb")
        self.is_greek = language.lower()[:2] == "el"

    def sentences(self, line: str) -> Sequence[Span]:
        """See `Segmenter.sentences`; the symbols at the edges of a line of a single sentence belong to it."""
        whole = _stripped(line, 0, len(line))
        if whole is None:
            return []
        if not ANY.search(line, whole.begin, whole.end - 1):
            return [whole]
        spans, begin, following = [], _gap_end(line, whole.begin), 0
        for match in END.finditer(line, whole.begin, whole.end):
            if match.start() < begin:
                continue
            if match.end() > following:  # else this terminator lies in the gap before the same text
                following = _gap_end(line, match.end())
            if following == len(line) or self._ends(line, begin, match, following):  # symbols alone, or a sentence
                spans.append(Span(begin, match.start("notes")))
                begin = following
        if begin < whole.end:
            spans.append(Span(begin, whole.end))
        return spans if len(spans) > 1 else [whole]

    def _ends(self, line: str, begin: int, match: re.Match[str], following: int) -> bool:
        """Whether the sentence that begins at `begin` ends with this terminator, before the text at `following`."""
        stop = line[match.start() : match.start("notes")]
        if any(mark in UNSPACED for mark in stop):
            return not _continues(line, match, following)
        if following == match.end() or (stop[0] == ";" and not self.is_greek):
            return False
        word = WORD.search(line, following)
        if word is None or word.group()[0].islower():
            return False
        if stop.rstrip(CLOSING) != ".":
            return True
        return not self._abbreviates(line, begin, match, word.group())

    def _abbreviates(self, line: str, begin: int, match: re.Match[str], following: str) -> bool:
        """Whether the full stop belongs to the word before it: an abbreviation, an initial, an ordinal number."""
        start = _word_start(line, begin, match.start())
        word = line[start : match.start()]
        if not 0 < len(word) <= LONGEST:
            return False
        lower = word.lower()
        if word.isdigit():
            return self._is_ordinal(word, following, is_first=start == begin)
        if lower in BEFORE_NAMES:
            return True
        if lower in BEFORE_NUMBERS:
            return following[0].isdigit()
        if lower in MAY_END or DOTTED.fullmatch(word):
            return following.lower() not in OPENING_WORDS
        if len(word) == 1 and word.isalpha() and not _has_no_case(word):
            return word != "I" or start == begin
        return self.has_ordinals and bool(ROMAN.fullmatch(word))

    def _is_ordinal(self, number: str, following: str, *, is_first: bool) -> bool:
        """Whether a number is that of a list, at the beginning of a sentence, or an ordinal, such as of a date."""
        if is_first or following.lower() in GERMAN_MONTHS:
            return len(number) < 4
        return self.has_ordinals and len(number) < 3 and following.lower() not in OPENING_WORDS


def _continues(line: str, match: re.Match[str], following: int) -> bool:
    """Whether a terminator without a blank behind it ends no sentence: a decimal point, the end of a quotation."""
    stop = line[match.start() : match.start("notes")]
    if stop == "．":
        return line[match.start() - 1 : match.start()].isdigit() and line[match.end() : match.end() + 1].isdigit()
    return stop[-1] in CLOSING and line.startswith(QUOTED, following)


def _word_start(line: str, begin: int, end: int) -> int:
    """Where the word that ends at `end` starts; no further back than an abbreviation may be long."""
    first = max(begin, end - LONGEST - 1)
    while end > first and not line[end - 1].isspace() and line[end - 1] not in BEFORE_WORDS:
        end -= 1
    return end


def _stripped(line: str, begin: int, end: int) -> Span | None:
    text = line[begin:end]
    if not (inner := text.strip()):
        return None
    begin += len(text) - len(text.lstrip())
    return Span(begin, begin + len(inner))


def _gap_end(line: str, at: int) -> int:
    """Where the next sentence begins, behind white space and symbols; the length of the line if there is none."""
    while at < len(line):
        if line[at].isspace():
            at += 1
        elif match := PUNCTUATION.match(line, at):
            symbols = _n_symbols(match.group(), is_loose=line[match.end() : match.end() + 1].strip() == "")
            if symbols < len(match.group()):
                return at + symbols
            at = match.end()
        else:
            break
    return at


def _n_symbols(run: str, *, is_loose: bool) -> int:
    """How many characters of a run of punctuation are no part of the sentence behind it.

    is_loose: white space follows the run, so that all of it stands alone, unless it opens a quote or a bracket.
    """
    for n, mark in enumerate(run):
        if mark in OPENING and not (is_loose and mark in "\"'"):
            return n
        if not is_loose and not _is_symbol(mark):
            return n
    return len(run)


def _is_symbol(mark: str) -> bool:
    """Whether it is no part of a sentence, even without a blank after it: a dash, a bullet, an emoji with its marks."""
    return mark in DASHES or mark in "•‣◦⁃∙·|" or unicodedata.category(mark) in ("So", "Sk", "Mn", "Me", "Cf")


def _has_no_case(letter: str) -> bool:
    return letter.lower() == letter.upper()
