"""Where sentences may end: terminators of all scripts, with what closes after them, and what stands between two."""

from __future__ import annotations

__all__ = ["ANY", "ANY_ASCII", "BEFORE_WORDS", "CLOSING", "END", "OPENING", "gap_end"]

import re
import unicodedata

from s2s.text.lazy_pattern import LazyPattern

SPACED = r"[.!?…‥‼⁇⁈⁉‽\u037e]"
"""Terminators before white space or a symbol; other places need more evidence"""
UNSPACED = r"[[\p{STerm}།-༑]--[.!?‼⁇⁈⁉‽․၊꧈᭞]]"
"""Terminators that belong to one script and need no blank: all others of Unicode, and the shads of Tibetan, but marks
that are used as commas"""
ANY = LazyPattern(f"(?V1){SPACED}|{UNSPACED}|[;:|፡]")
ANY_ASCII = re.compile("[.!?]")
"""Without one of these, which is quick to see, a text is one sentence"""
INDIC = "[\u0900-\u0dff]"
CLOSING = "\"'”’“‘»›«‹)]}」』）】》〉〕＂＇*_"
END = LazyPattern(
    rf"""(?V1x)
    (?: (?P<unspaced> (?: {UNSPACED} (?:\ +[།-༑])* )+ {SPACED}*
            | ፡፡                           # the full stop of Ethiopic as two signs for blanks
            | (?<={INDIC}\s?) \| (?=\s|$) )  # a danda as keyboards without one have it
        | {SPACED}++ (?P<mixed> {UNSPACED}+ )?
        | (?<=\p{{Armenian}}) : (?!\d)
        | (?<=\p{{Greek}}\p{{M}}?) ; )
    (?: [{re.escape(CLOSING)}]+ [{SPACED}{UNSPACED}]* )*
    (?: </[a-zA-Z][^<>]{{0,40}}> )*
    (?: [ \u00a0\u202f] [”’»›] (?=\s|$) )*  # French quotes close after a blank
    (?P<notes> (?P<number> (?<=[^\W\d_]{{2}} [.!?…] [{re.escape(CLOSING)}]?) \d{{1,3}} (?=\s|$) )
        | (?: \[[^\W_]{{1,4}}\] | \(\d{{1,3}}\) | [⁰¹²³⁴-⁹]+ )* )  # references, which are copied
    """
)
PUNCTUATION = re.compile(r"(?:[^\w\s]|_)+")
OPENING = frozenset("\"'“„«‘‚‹([{¿¡「『（【《〈〔")
"""Punctuation that begins a sentence, also before a blank"""
DASHES = frozenset("–—―‒")
BEFORE_WORDS = frozenset("([{\"'“„«‘¿¡")
"""Punctuation that is no part of the word behind it"""


def gap_end(line: str, at: int) -> int:
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
