"""Sentences by rules: a terminator, what closes after it, and a following character that is no lower-case letter.

Abbreviations, initials, numbers and host names stay whole. White space, symbols and references to notes, such as [1],
between two sentences are outside of both. The rules serve all languages at once; that of the source only decides about
ordinal numbers.
"""

from __future__ import annotations

__all__ = ["RuleSegmenter"]

from typing import TYPE_CHECKING, NamedTuple

from s2s.data.abbreviations import (
    BEFORE_NAMES,
    BEFORE_NUMBERS,
    GERMAN_MONTHS,
    HOST_ENDINGS,
    MAY_END,
    OPENING_WORDS,
    WITH_EXCLAMATION,
)
from s2s.data.invisible import inner
from s2s.data.segmenter import Segmenter
from s2s.data.sentence_marks import ANY, ANY_ASCII, BEFORE_WORDS, CLOSING, END, OPENING, gap_end
from s2s.text.lazy_pattern import LazyPattern
from s2s.text.words import is_unspaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    import regex

    from s2s.registry import Choice

TAG = LazyPattern(r"</?[a-zA-Z][^<>]{0,200}>")
WORD = LazyPattern(rf"{TAG.pattern}(*SKIP)(*FAIL)|\w[\w\p{{M}}]*")
"""A word, also behind tags, which text may have"""
DOTTED = LazyPattern(r"(?:\p{L}\p{M}*\.)+\p{L}\p{M}*")
ROMAN = LazyPattern(r"[IVX]+")
PLAIN = LazyPattern(r"\p{L}[\p{L}\p{M}]*+(?:['’-][\p{L}\p{M}]++)*+")
PLAIN_OR_DOTTED = LazyPattern(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}'’,.%-]*+")
"""Words, numbers and host names, but no addresses or code"""
WORD_ENDS = LazyPattern(r"""$|[\s,;!?'’"”“»«)\]*_…—–]|[.:](?:$|\W)""")
"""What follows a word, but not a part of a name with dots, of an address or of code"""
CONSONANTS = LazyPattern(r"[b-df-hj-km-np-qs-tv-xz]++[lr]?")
"""No word, but perhaps a module, as in fmt.Println; l and r may be vowels, as in the Czech krk"""
UNDOTTED = LazyPattern(r"[^\s.。｡！？]++(?:\.(?!\w)|[。｡！？])")
"""A sentence without blanks that ends with a full stop, too, and no part of a name with dots"""
LONGEST = 32
"""Characters of a word that may be an abbreviation"""
SAID = LazyPattern("と(?:[言云思叫聞答書呼感考問]|い[うっ])|って|[他她它我你您]?[们們]?[说說问問道喊答]|ល។")
"""What continues a sentence after a question or an exclamation in Japanese and Chinese; the Khmer "etc." """
QUOTED = ("と", "って", "、", "を", "の", "は", "が", "に", "も", "など")
"""What does the same after a quotation in Japanese"""
OPENED_BY = {mark: mark for mark in "\"'*_"} | {"“": "„", "‘": "‚", "»": "«", "«": "»"}
"""What may close a quote or emphasis, or open the next -> what it closes"""
CASELESS = LazyPattern(r"\p{Georgian}|\p{Cherokee}")
"""Scripts whose letters have a case that does not show where sentences begin"""


class Span(NamedTuple):
    """Characters of a text, up to `end`."""

    begin: int
    end: int


class RuleSegmenter(Segmenter):
    """Sentences end at punctuation that the next word confirms; abbreviations, numbers and host names stay whole."""

    def __init__(self, config: Choice, language: str) -> None:
        self.has_ordinals = language.lower()[:2] in ("de", "da", "no", "nb", "nn", "fi", "et", "hu", "cs", "sk", "lb")

    def sentences(self, line: str) -> Sequence[Span]:
        """See `Segmenter.sentences`; the symbols at the edges of a line of a single sentence belong to it."""
        whole = Span(*inner(line))
        if whole.begin == whole.end:
            return []
        if not (ANY_ASCII if line.isascii() else ANY).search(line, whole.begin, whole.end - 1):
            return [whole]
        spans, begin, following = list[Span](), gap_end(line, whole.begin), 0
        word = first = WORD.search(line)
        for match in END.finditer(line, whole.begin, whole.end):
            if match.start() < begin or (first and match.start() <= first.start() and begin == whole.begin):
                continue
            if match.end() > following:  # else this terminator lies in the gap before the same text
                following = gap_end(line, match.end())
            if word and word.start() < following:
                word = WORD.search(line, following)
            end = _SentenceEnd(line, begin, match, following, word)
            if self._is_end(end):  # symbols alone may follow, or a sentence
                n_opening = end.n_opening
                spans.append(Span(begin, match.start("notes") - n_opening))
                begin = following - n_opening
        if begin < whole.end:
            spans.append(Span(begin, whole.end))
        return spans if len(spans) > 1 else [whole]

    def _is_end(self, end: _SentenceEnd) -> bool:
        """Whether a sentence ends here."""
        if end.match["number"] and self._abbreviates(end, end.match["number"]):
            return False
        if end.following == len(end.line):
            return True
        if end.match["unspaced"] or end.match["mixed"]:
            return not end.continues()
        if not end.word or end.is_in_name():
            return False
        if end.following == end.match.end():
            return self._is_end_without_blank(end)
        return end.word_may_begin() and not (end.is_full_stop and self._abbreviates(end, end.word))

    def _is_end_without_blank(self, end: _SentenceEnd) -> bool:
        """Whether a sentence ends where nothing stands before the next word, or what opens it."""
        before, word = end.word_before(), end.word
        between = TAG.sub("", end.line[end.following : end.word_begin])
        if between in ("#", "@"):  # words that are tags
            return len(before) > 1 and PLAIN.fullmatch(before) is not None and not self._abbreviates(end, word)
        if not set(between) <= OPENING or not before or end.stop.startswith(("…", "...")):
            return False
        if is_unspaced(before[-1]) or is_unspaced(word[0]):
            if end.is_full_stop:
                are_words = len(before) > 1 and all(map(is_unspaced, before + word[0])) and PLAIN.fullmatch(before)
                return bool(are_words and UNDOTTED.match(end.line, end.word_begin))
            return word[0].isalpha() and not end.continues()
        if not WORD_ENDS.match(end.line, end.word_begin + len(word)) or not PLAIN.fullmatch(word):
            return False
        if not end.is_full_stop:
            return PLAIN.fullmatch(before) is not None and (_is_title(word) or _has_no_case(word[0]))
        return self._is_full_stop_without_blank(before, word) and not self._abbreviates(end, word)

    @staticmethod
    def _is_full_stop_without_blank(before: str, word: str) -> bool:
        """Whether the words on both sides of a full stop belong to two sentences, not to a name with dots."""
        are_capitals = word.isupper() and before.isupper() and len(word) > 1 and len(before) > 2
        if word.lower() in OPENING_WORDS and (_is_title(word) or are_capitals) and PLAIN_OR_DOTTED.fullmatch(before):
            return len(word) > 1 or "." not in before
        if len(before) < 2 or not PLAIN.fullmatch(before) or word.lower() in HOST_ENDINGS:
            return False
        if CONSONANTS.fullmatch(before):
            return False
        if _has_no_case(before[0]):
            return _has_no_case(word[0])
        return before.islower() and _is_title(word) and len(word) > 1

    def _abbreviates(self, end: _SentenceEnd, following: str) -> bool:
        """Whether the full stop belongs to the word before it: an abbreviation, an initial, an ordinal number."""
        start = end.word_start(end.match.start())
        word = end.line[start : end.match.start()]
        if not 0 < len(word) <= LONGEST:
            return False
        lower = word.lower()
        if word.isdigit():
            return self._is_ordinal(word, following, is_first=start == end.begin)
        if lower in BEFORE_NAMES:
            return True
        if lower in BEFORE_NUMBERS:
            return following[0].isdigit() or ROMAN.fullmatch(following) is not None
        if lower in MAY_END or DOTTED.fullmatch(word):
            return following.lower() not in OPENING_WORDS
        if len(word) == 1 and word.isalpha() and not _has_no_case(word):
            return word != "I" or start == end.begin
        return self.has_ordinals and ROMAN.fullmatch(word) is not None

    def _is_ordinal(self, number: str, following: str, *, is_first: bool) -> bool:
        """Whether a number is that of a list, at the beginning of a sentence, or an ordinal, such as of a date."""
        if is_first or following.lower() in GERMAN_MONTHS:
            return len(number) < 4
        return self.has_ordinals and len(number) < 3 and following.lower() not in OPENING_WORDS


class _SentenceEnd:
    """A terminator, behind a sentence that begins at `begin`, and before the text at `following`."""

    def __init__(
        self, line: str, begin: int, match: regex.Match[str], following: int, word: regex.Match[str] | None
    ) -> None:
        """word: the next one."""
        self.line, self.begin, self.match, self.following = line, begin, match, following
        self.stop = line[match.start() : match.start("notes")]
        self.word: str = word[0] if word else ""
        self.word_begin: int = word.start() if word else len(line)

    @property
    def is_full_stop(self) -> bool:
        """Whether it is one that abbreviations, or lists, have, too."""
        return self.stop.rstrip(CLOSING) in (".", ";")

    def word_may_begin(self) -> bool:
        """Whether the next word may be the first of a sentence: it is no lower-case one, or a tag."""
        letter = self.word[0]
        is_tag = self.line[self.following : self.word_begin] in ("#", "@")
        return is_tag or not letter.islower() or _has_no_case(letter) or self.word[1:2].isupper()

    def is_in_name(self) -> bool:
        """Whether the mark belongs to a name, such as Yahoo!"""
        if self.stop not in ("!", "?") or self.word.lower() in OPENING_WORDS:
            return False
        return self.word_before().lower() in WITH_EXCLAMATION or self.word.lower() in ("inc", "corp", "ltd")

    def continues(self) -> bool:
        """Whether the sentence continues without a blank: at a decimal point, or the end of a quotation."""
        line, at = self.line, self.match.start()
        if self.stop == "．":
            return line[at - 1 : at].isdigit() and line[self.match.end() : self.match.end() + 1].isdigit()
        is_closed = self.stop[-1] in CLOSING
        if is_closed and line.startswith(QUOTED, self.following):
            return True
        return (is_closed or self.stop[-1] in "!?！？។") and SAID.match(line, self.following) is not None

    @property
    def n_opening(self) -> int:
        """How many characters of the stop are quotes or marks of emphasis that open the next sentence."""
        mark = self.stop[-1]
        if not self.match.end() == self.following < len(self.line) or mark not in OPENED_BY:
            return 0
        run = self.stop[len(self.stop.rstrip(mark)) :]
        n_closed, n_opened = (
            self.line.count(one, self.begin, self.match.start()) for one in (run, OPENED_BY[mark] * len(run))
        )
        is_open = n_closed % 2 if OPENED_BY[mark] == mark else n_opened > n_closed
        return 0 if is_open else len(run)

    def word_before(self) -> str:
        """The word, without what closes behind it; there may be a blank before a mark, as in French."""
        end = self.match.start()
        if self.stop[:1] in ("!", "?") and self.line[end - 1 : end].isspace():
            end -= 1
        return self.line[self.word_start(end) : end].rstrip(CLOSING)

    def word_start(self, end: int) -> int:
        """Where the word that ends at `end` starts; no further back than an abbreviation may be long."""
        first = max(self.begin, end - LONGEST - 1)
        while end > first and not self.line[end - 1].isspace() and self.line[end - 1] not in BEFORE_WORDS:
            end -= 1
        return end


def _is_title(word: str) -> bool:
    """Whether the first letter is a capital, and no other."""
    return word[0].isupper() and (len(word) == 1 or word[1:].islower())


def _has_no_case(letter: str) -> bool:
    return letter.lower() == letter.upper() or CASELESS.match(letter) is not None
