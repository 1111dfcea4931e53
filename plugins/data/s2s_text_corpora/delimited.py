"""Tables as text: columns between tabs, commas, semicolons or bars."""

from __future__ import annotations

__all__ = ["BarsFile", "CsvFile", "Table", "TsvFile"]

import csv
from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from s2s import DataError, Example, Rejected
from s2s.data import numbered_lines
from s2s_text_corpora.columns import choose, is_header, texts_only
from s2s_text_corpora.pair_file import BLANK, NOT_A_PAIR, PairFile, Unusable, as_pair, check_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


N_SAMPLED = 100
"""Rows by which columns are told apart"""
DELIMITERS = (",", ";", "\t", "|")


class Layout(NamedTuple):
    """Where the rows of a table have their sides."""

    src: int
    tgt: int
    n: int
    """Columns"""
    names: tuple[str, ...] = ()
    """Those of the header; empty: there is none"""


class Table(PairFile):
    """Rows of cells, the first of which may be a header."""

    between: ClassVar[str] = ""
    """What is between columns, for error messages"""

    def layout(self) -> Layout:
        sample = [row for _, row in islice(self.rows(), N_SAMPLED) if not isinstance(row, Rejected)]
        if not sample:
            return Layout(0, 1, 2)
        first, others = sample[0], sample[1:]
        if is_header(first, others, self.reading):
            names = [name.strip() for name in first]
            src, tgt = choose(names, self.reading, f"{self.path}")
            return Layout(names.index(src), names.index(tgt), len(first), tuple(names))
        n = _usual_length(sample)
        rows = [row for row in sample if len(row) == n]
        numbers = [str(i + 1) for i in range(n)]
        if self.reading.columns:
            src, tgt = choose(numbers, self.reading, f"{self.path}: without a header")
            return Layout(int(src) - 1, int(tgt) - 1, n)
        texts = [0, 1] if self.reading.documents and n == 3 else texts_only(rows) if n > 2 else [0, 1]
        return Layout(texts[0], texts[1], n)

    def decided(self) -> str:
        layout = self.layout()
        if layout.names:
            src, tgt = layout.names[layout.src], layout.names[layout.tgt]
            return f"its first row is a header, and no pair: source '{src}', target '{tgt}'"
        if layout.n > 2 and not self.reading.columns and not self.reading.documents:
            return (
                f"source is column {layout.src + 1}, target column {layout.tgt + 1} of {layout.n}; task.columns=[…,…] "
                "says otherwise"
            )
        return ""

    def body(self, layout: Layout) -> Iterator[tuple[int, Any]]:
        is_behind = not layout.names
        for number, row in self.rows():
            if is_behind or isinstance(row, Rejected):
                yield number, row
            else:
                is_behind = True  # this is the header

    def pair(self, row: Sequence[str], layout: Layout) -> Example | Rejected:
        if len(row) != layout.n and not (self.reading.documents and not layout.names and 2 <= len(row) <= 3):
            given = f"{len(row)} column{'s' if len(row) > 1 else ''}"
            raise Unusable(f"{given}, expected {layout.n}{self.between}")
        src, tgt = row[layout.src], row[layout.tgt]
        pair = as_pair(src, tgt)
        if not isinstance(pair, Example):
            return pair
        if layout.names and layout.n > 2:
            named = {
                name: row[i] for i, name in enumerate(layout.names) if i not in (layout.src, layout.tgt) and row[i]
            }
            return replace(pair, fields=named)
        if self.reading.documents and len(row) == 3 and not layout.names:
            return replace(pair, fields={"document": row[2]})
        return pair


def _usual_length(rows: Sequence[Sequence[str]]) -> int:
    """The most frequent number of cells, of two or more; the smaller one of two that are as frequent."""
    counts = Counter(len(row) for row in rows if len(row) > 1)
    return max(sorted(counts), key=lambda n: counts[n], default=2)


class TsvFile(Table):
    """Columns between tabs, without quoting."""

    delimiter = "\t"
    between = " with one tab between them"

    def rows(self) -> Iterator[tuple[int, Any]]:
        for number, line in numbered_lines(self.path, self.reading.invalid):
            if isinstance(line, Rejected):
                yield number, line
            else:
                yield number, line.split(self.delimiter) if line and not line.isspace() else BLANK


class BarsFile(TsvFile):
    """Columns between ` ||| `, as aligners read them."""

    delimiter = " ||| "
    between = " with ||| between them"


class CsvFile(Table):
    """Columns between commas, semicolons, tabs or bars, of which cells in quotes may have some, and line ends."""

    def rows(self) -> Iterator[tuple[int, Any]]:
        delimiter = self._delimiter()
        rejected: list[tuple[int, Rejected]] = []
        reader = csv.reader(self._lines(rejected), delimiter=delimiter)
        end = 0
        while True:
            begin = end + 1
            try:
                row = next(reader, None)
            except csv.Error as error:
                if self.reading.invalid == "error":
                    raise DataError(f"{self.path}:{begin}: {error}; is a quote not closed there?") from None
                row, end = None, reader.line_num
                yield begin, NOT_A_PAIR
                continue
            yield from rejected
            rejected.clear()
            if row is None:
                return
            end = reader.line_num
            yield begin, row if any(cell.strip() for cell in row) else BLANK

    def _lines(self, rejected: list[tuple[int, Rejected]]) -> Iterator[str]:
        """Lines with their ends; those that are no text are left out, and added to `rejected`."""
        for number, line in numbered_lines(self.path, self.reading.invalid):
            if isinstance(line, Rejected):
                rejected.append((number, line))
            else:
                yield line + "\n"

    def _delimiter(self) -> str:
        """The one that gives the most rows of one length above 1."""
        lines = [*islice(self._lines([]), N_SAMPLED)]
        return max(DELIMITERS, key=lambda delimiter: _n_equal(lines, delimiter))

    def pair(self, row: Sequence[str], layout: Layout) -> Example | Rejected:
        for cell in row:
            check_text("cell", cell)
        return super().pair(row, layout)


def _n_equal(lines: Iterable[str], delimiter: str) -> int:
    try:
        lengths = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter) if len(row) > 1)
    except csv.Error:
        return 0
    return max(lengths.values(), default=0)
