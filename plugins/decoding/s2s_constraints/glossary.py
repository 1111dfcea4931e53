"""Glossaries: terms of the source, and what each is to be in the output.

A term occurs in a text as whole words; in scripts without blanks, anywhere. Case, Unicode composition and the width of
white space do not matter; of terms that differ in case alone, the one written as in the text is taken, else the first.
Of terms that overlap the longest counts, and the first of equally long ones.
"""

from __future__ import annotations

__all__ = ["SEPARATOR", "Glossary", "Occurrence", "Term", "read_glossary"]

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from s2s import DataError
from s2s.data import read_lines
from s2s.io import expand_user
from s2s_constraints.symbols import joins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

SEPARATOR = "|"
"""Between alternative translations"""


class Term(NamedTuple):
    """One line of a glossary."""

    source: str
    targets: tuple[str, ...]
    """Its translations, of which any will do"""


class Occurrence(NamedTuple):
    """Where a term is in a text."""

    begin: int
    end: int
    term: Term
    written: str
    """As there, composed and with single blanks"""


class Glossary:
    """Finds the terms of texts."""

    def __init__(self, terms: Iterable[Term] = ()) -> None:
        """Of several terms with the same source the last counts."""
        self.terms = {_normal(term.source): term for term in terms}
        self._spellings: dict[str, list[str]] = {}
        self._lengths: dict[str, set[int]] = {}
        for source in self.terms:
            self._spellings.setdefault(_without_case(source), []).append(source)
            self._lengths.setdefault(_without_case(source[0]), set()).add(len(source))

    def with_terms(self, terms: Iterable[Term]) -> Glossary:
        """This glossary with others, which replace those of the same source."""
        return Glossary([*self.terms.values(), *terms])

    def terms_in(self, text: str) -> list[tuple[Term, str]]:
        """The terms that occur in a text, in their order, and how each is written there where it occurs first."""
        terms: dict[Term, str] = {}
        for _, _, term, written in self.occurrences(text):
            terms.setdefault(term, written)
        return list(terms.items())

    def occurrences(self, text: str) -> list[Occurrence]:
        """The terms of a text, wherever they occur, in their order."""
        if not self.terms:
            return []
        text, places = _with_places(text)
        chosen: dict[int, int] = {}
        for begin, end in sorted(self._places(_without_case(text)), key=lambda one: (one[0] - one[1], one[0])):
            if all(end <= other or begin >= other_end for other, other_end in chosen.items()):
                chosen[begin] = end
        found = list[Occurrence]()
        for begin, end in sorted(chosen.items()):
            spellings = self._spellings[_without_case(written := text[begin:end])]
            term = self.terms[written if written in spellings else spellings[0]]
            found.append(Occurrence(places[begin], places[end], term, written))
        return found

    def _places(self, text: str) -> Iterator[tuple[int, int]]:
        """Beginnings and ends of all terms in a text without case, overlapping ones, too."""
        for begin, first in enumerate(text):
            if first in self._lengths and not joins(text[begin - 1 : begin] if begin else "", first):
                for end in (begin + length for length in self._lengths[first]):
                    is_term = end <= len(text) and text[begin:end] in self._spellings
                    if is_term and not joins(text[end - 1], text[end : end + 1]):
                        yield begin, end


def _normal(text: str) -> str:
    """Composed, with single blanks between words."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _with_places(text: str) -> tuple[str, Sequence[int]]:
    """The text composed, with single blanks, and where each of its characters begins in the text as given; and its end.

    Characters that composition joins are one to the reader, and so have one place.
    """
    if unicodedata.is_normalized("NFC", text) and " ".join(text.split()) == text:
        return text, range(len(text) + 1)
    shown, places = "", list[int]()
    import regex

    for match in regex.finditer(r"\s+|\X", text):
        one = " " if match[0].isspace() else unicodedata.normalize("NFC", match[0])
        shown += one
        places += [match.start()] * len(one)
    return shown, [*places, len(text)]


def _without_case(text: str) -> str:
    """Each character without case, where that is one character."""
    folded = ((one, one.casefold()) for one in text)
    return "".join(small if len(small) == 1 else one for one, small in folded)


def read_glossary(path: str) -> Glossary:
    """The glossary of a TSV file: source and target, further columns are ignored; `|` separates alternative targets.

    Raises DataError for a line without a second column, an empty term, and a source that has other targets before.
    """
    file = expand_user(path, "terms")
    status = file.stat() if file.exists() else None
    return _read(file, (status.st_size, status.st_mtime_ns, status.st_ctime_ns) if status else ())


@lru_cache(maxsize=16)
def _read(path: Path, version: tuple[int, ...]) -> Glossary:
    """version: size and times of the file, so that it is read again where another has taken its place."""
    del version
    seen: dict[str, tuple[int, Term]] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip(" "):
            continue
        term = _term(line, f"{path}:{number}")
        before, other = seen.setdefault(_normal(term.source), (number, term))
        if set(other.targets) != set(term.targets):
            raise DataError(
                f"{path}:{number}: {term.source!r} is {SEPARATOR.join(term.targets)!r} here and "
                f"{SEPARATOR.join(other.targets)!r} in line {before}; write alternatives in one line, separated by "
                f"{SEPARATOR}"
            )
    return Glossary(term for _, term in seen.values())


def _term(line: str, where: str) -> Term:
    columns = line.split("\t")
    if len(columns) < 2:
        raise DataError(f"{where}: expected a source term, a tab and a target term, got {line[:60]!r}")
    source, targets = columns[0].strip(), tuple(target.strip() for target in columns[1].split(SEPARATOR))
    if not source or not all(targets):
        raise DataError(f"{where}: an empty term; give both source and target")
    return Term(source, tuple(dict.fromkeys(targets)))
