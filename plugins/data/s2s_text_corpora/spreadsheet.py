"""The first sheet of a spreadsheet of Excel as a table. Needs openpyxl."""

from __future__ import annotations

__all__ = ["SpreadsheetFile"]

import warnings
import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from s2s import DataError
from s2s.data import open_bytes
from s2s_text_corpora.delimited import Table
from s2s_text_corpora.pair_file import BLANK, check_text, library, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s import Example, Rejected
    from s2s_text_corpora.delimited import Layout

MAX_BYTES = 1 << 29
"""Of all members of the archive, unpacked; no more is unpacked than the archive declares"""
MAX_ROWS = 1 << 20
"""As in Excel; a row may claim any number, and the rows before it are then empty ones"""
CHUNK = 1 << 16
UNREADABLE = (
    zipfile.BadZipFile, zlib.error, SyntaxError, KeyError, ValueError, TypeError, IndexError, AttributeError, EOFError,
    OSError, RuntimeError, MemoryError,
)  # fmt: skip
"""SyntaxError: of the parsers of XML, that of lxml, too, which openpyxl takes if it is there"""


class SpreadsheetFile(Table):
    """Rows of cells as texts; of formulas, their values."""

    place = ", row "

    def rows(self) -> Iterator[tuple[int, Any]]:
        with self._workbook() as book:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # which some programs write wrong
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
                if number > MAX_ROWS:
                    raise DataError(f"{self.path}: more than {MAX_ROWS:,} rows")
                texts = ["" if cell is None else str(cell) for cell in cells]
                while len(texts) > 2 and not texts[-1]:  # empty cells that have a format only
                    texts.pop()
                yield number, texts if any(text.strip() for text in texts) else BLANK

    def decided(self) -> str:
        with self._workbook() as book:
            names = book.sheetnames
        sheet = f"sheet '{names[0]}' of {len(names)} is read" if len(names) > 1 else ""
        return "; ".join(filter(None, [sheet, super().decided()]))

    def pair(self, row: Sequence[str], layout: Layout) -> Example | Rejected:
        for text in row:
            check_text("cell", text)
        padded = [*row, *[""] * (layout.n - len(row))]
        return super().pair(padded[: max(layout.n, 2)], layout)

    @contextmanager
    def _workbook(self) -> Iterator[Any]:
        """The open file; errors become one line."""
        with open_bytes(self.path, text=False):
            pass  # raises what is wrong with any file
        openpyxl = library("openpyxl", "openpyxl", "corpora", self.path)
        try:
            self._check_size()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                book = openpyxl.load_workbook(self.path, read_only=True, data_only=True, keep_links=False)
                try:
                    yield book
                finally:
                    book.close()
        except UNREADABLE as error:
            raise one_line(error, self.path, "a spreadsheet of Excel") from None

    def _check_size(self) -> None:
        """Raise DataError for an archive that unpacks to too much, or that declares entities, which Excel does not."""
        with zipfile.ZipFile(self.path) as archive:
            if sum(info.file_size for info in archive.infolist()) > MAX_BYTES:
                raise DataError(f"{self.path}: more than {MAX_BYTES:,} bytes unpacked; save it as CSV")
            for info in archive.infolist():
                with archive.open(info) as member:
                    start = member.read(CHUNK).replace(b"\0", b"")
                if b"<!DOCTYPE" in start or b"<!ENTITY" in start:
                    raise DataError(f"{self.path}: {info.filename} declares entities, which are not read")
