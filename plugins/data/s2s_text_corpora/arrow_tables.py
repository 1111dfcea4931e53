"""Tables of Arrow: Parquet files, and the Arrow files of the library `datasets`. Needs pyarrow."""

from __future__ import annotations

__all__ = ["ArrowFile", "ParquetFile"]

from abc import abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from s2s import DataError
from s2s.data import open_bytes
from s2s_text_corpora.pair_file import library, one_line
from s2s_text_corpora.records import RecordFile

if TYPE_CHECKING:
    from collections.abc import Iterator

N_ROWS = 1024
"""Rows that are converted at once"""
LARGEST_GROUP = 1 << 31
"""Bytes of a row group, unpacked, as the file declares"""


class _ArrowTable(RecordFile):
    """Batches of rows; columns of bytes, such as audio, are left out."""

    place = ", row "

    @abstractmethod
    def batches(self) -> Iterator[Any]:
        """Record batches."""

    def rows(self) -> Iterator[tuple[int, Any]]:
        number = 0
        for batch in self.batches():
            for start in range(0, batch.num_rows, N_ROWS):
                part = batch.slice(start, N_ROWS)
                texts = [
                    name for name, kind in zip(part.schema.names, part.schema.types, strict=True) if _is_read(kind)
                ]
                rows = part.select(texts).to_pylist()
                yield from enumerate(rows, number + 1)
                number += len(rows)

    @contextmanager
    def _reading(self, what: str) -> Iterator[Any]:
        """pyarrow, whose errors become one line."""
        with open_bytes(self.path, text=False):
            pass  # raises what is wrong with any file
        pyarrow = library("pyarrow", "pyarrow", "corpora", self.path)
        try:
            yield pyarrow
        except (pyarrow.ArrowException, OSError, ValueError, KeyError) as error:
            raise one_line(error, self.path, what) from None


def _is_read(kind: Any) -> bool:
    return "binary" not in str(kind)


class ParquetFile(_ArrowTable):
    """Parquet, one row group after the other."""

    def batches(self) -> Iterator[Any]:
        parquet = library("pyarrow.parquet", "pyarrow", "corpora", self.path)
        with self._reading("Parquet"), parquet.ParquetFile(self.path) as file:
            for i in range(file.metadata.num_row_groups):
                if file.metadata.row_group(i).total_byte_size > LARGEST_GROUP:
                    raise DataError(f"{self.path}: row group {i} has more than {LARGEST_GROUP:,} bytes unpacked")
            yield from file.iter_batches(N_ROWS)


class ArrowFile(_ArrowTable):
    """Arrow's format of streams, in which `datasets` saves, or of files."""

    def batches(self) -> Iterator[Any]:
        with self._reading("Arrow") as pyarrow, pyarrow.memory_map(str(self.path)) as file:
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            if is_file:
                reader = pyarrow.ipc.open_file(file)
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                yield from pyarrow.ipc.open_stream(file)
