"""The contract of a file that holds both sides of pairs, and what all such files share."""

from __future__ import annotations

__all__ = [
    "BLANK",
    "EMPTY",
    "NOT_A_PAIR",
    "PairFile",
    "Reading",
    "Unusable",
    "as_pair",
    "check_text",
    "library",
    "one_line",
]

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from s2s import DataError, Example, Rejected
from s2s.data import DROP_HINT, INVALID_UTF8, MAX_LINE, NUL, Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EMPTY = Rejected("empty")
BLANK = Rejected("empty")
"""Both sides are empty, which ends a document; only its identity differs from `EMPTY`, as both count alike"""
NOT_A_PAIR = Rejected("not a pair")
N_LOOKED_AT = 1000
"""Rows of a file by which it is judged whether most of it is unusable"""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How files of pairs are read, according to the user."""

    invalid: Invalid = "error"
    columns: tuple[str, ...] = ()
    """Source and target: names, numbers from 1, or languages; empty: chosen by `columns.choose`"""
    languages: tuple[str, str] = ("", "")
    """Those of source and target; empty: unknown"""
    documents: bool = False
    """Whether the third column of a table without names is a document"""


class Unusable(Exception):  # noqa: N818  caught in this file
    """The error in a row, and the `Rejected` that counts it if it is dropped."""

    def __init__(self, what: str, counts_as: Rejected = NOT_A_PAIR) -> None:
        super().__init__(what)
        self.counts_as = counts_as


class PairFile(ABC):
    """A file, or a folder of files, of pairs. Rows are read one after the other, not into memory."""

    place: ClassVar[str] = ":"
    """Between a file's name and the number of a row, in error messages"""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path, self.reading = path, reading

    @abstractmethod
    def rows(self) -> Iterator[tuple[int, Any]]:
        """Every row with its number, from 1; a `Rejected` is one that is no text, or not translated."""

    def body(self, layout: Any) -> Iterator[tuple[int, Any]]:
        """Those that are no header."""
        return self.rows()

    @abstractmethod
    def layout(self) -> Any:
        """Where rows have their sides, by a look at the first ones; raises DataError where that is undecided."""

    @abstractmethod
    def decided(self) -> str:
        """What was chosen without the user, for the first screen; empty if nothing was."""

    @abstractmethod
    def pair(self, row: Any, layout: Any) -> Example | Rejected:
        """The pair in a row; raises Unusable."""

    def pairs(self) -> Iterator[Example | Rejected]:
        """Every pair in order."""
        layout = self.layout()
        for number, row in self.body(layout):
            if isinstance(row, Rejected):
                yield row
                continue
            try:
                pair = self.pair(row, layout)
            except Unusable as error:
                if self.reading.invalid == "error":
                    raise DataError(f"{self.path}{self.place}{number}: {error}; {self._advice(layout)}") from None
                pair = error.counts_as
            yield pair

    def _advice(self, layout: Any) -> str:
        """What to do about an unusable row; not to drop such rows where most are."""
        seen = [row for _, row in islice(self.body(layout), N_LOOKED_AT) if not isinstance(row, Rejected)]
        n_unusable = sum(self._is_unusable(row, layout) for row in seen)
        if 2 * n_unusable <= len(seen):
            return DROP_HINT
        return (
            f"so {_are(n_unusable)} of the first {len(seen):,}: is this the right file, and in the format of its name?"
        )

    def _is_unusable(self, row: Any, layout: Any) -> bool:
        try:
            self.pair(row, layout)
        except Unusable:
            return True
        return False


def _are(n: int) -> str:
    return f"{'is' if n == 1 else 'are'} {n:,}"


def as_pair(src: str | Rejected, tgt: str | Rejected) -> Example | Rejected:
    """The pair of two texts, or why they are none."""
    if isinstance(src, Rejected):
        return src
    if isinstance(tgt, Rejected):
        return tgt
    if not src or not tgt or src.isspace() or tgt.isspace():
        return EMPTY if src.strip() or tgt.strip() else BLANK
    return Example(src, tgt)


def check_text(name: str, text: str) -> None:
    """Raise Unusable for what no file of lines can contain: NUL, half of a surrogate pair, or too many characters."""
    if "\0" in text:
        raise Unusable(f'"{name}" spells a NUL character (\\u0000)', NUL)
    if len(text) > MAX_LINE:
        raise Unusable(f'"{name}" has more than {MAX_LINE:,} characters')
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Unusable(f'"{name}" spells half a character (\\u{ord(text[error.start]):04x})', INVALID_UTF8) from None


def library(module: str, package: str, extra: str, path: Path) -> Any:
    """The module; raises DataError with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise DataError(f"{path}: this format needs {package}: pip install {package} (extra {extra})") from None


def one_line(error: Exception, path: Path, what: str) -> DataError:
    """What a library says about a file that it cannot read."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    return DataError(f"{path}: cannot be read as {what}: {said}")
