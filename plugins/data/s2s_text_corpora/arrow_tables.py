"""Tables of Arrow: Parquet files, and the Arrow files of the library `datasets`. Needs pyarrow."""

from __future__ import annotations

__all__ = ["ArrowFile", "ParquetFile"]

from abc import abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

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
    what: ClassVar[str]
    """The name of the format"""

    @abstractmethod
    def batches(self, pyarrow: Any) -> Iterator[Any]:
        """Record batches."""

    def rows(self) -> Iterator[tuple[int, Any]]:
        number = 0
        with self._reading() as pyarrow:
            for batch in self.batches(pyarrow):
                batch.validate(full=True)  # of a damaged one, offsets may lead beyond its memory
                for start in range(0, batch.num_rows, N_ROWS):
                    rows = _texts(batch.slice(start, N_ROWS)).to_pylist()
                    yield from enumerate(rows, number + 1)
                    number += len(rows)

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """pyarrow, whose errors become one line."""
        with open_bytes(self.path, text=False):
            pass  # raises what is wrong with any file
        pyarrow = library("pyarrow", "pyarrow", "corpora", self.path)
        try:
            yield pyarrow
        except (pyarrow.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
            raise one_line(error, self.path, self.what) from None


def _texts(batch: Any) -> Any:
    """A batch without the columns of bytes."""
    kinds = zip(batch.schema.names, batch.schema.types, strict=True)
    return batch.select([name for name, kind in kinds if "binary" not in str(kind)])


class ParquetFile(_ArrowTable):
    """Parquet, one row group after the other."""

    what = "Parquet"

    def batches(self, pyarrow: Any) -> Iterator[Any]:
        parquet = library("pyarrow.parquet", "pyarrow", "corpora", self.path)
        with parquet.ParquetFile(self.path) as file:
            for i in range(file.metadata.num_row_groups):
                if file.metadata.row_group(i).total_byte_size > LARGEST_GROUP:
                    raise DataError(f"{self.path}: row group {i} has more than {LARGEST_GROUP:,} bytes unpacked")
            yield from file.iter_batches(N_ROWS)


class ArrowFile(_ArrowTable):
    """Arrow's format of streams, in which `datasets` saves, or of files."""

    what = "Arrow"

    def batches(self, pyarrow: Any) -> Iterator[Any]:
        with pyarrow.OSFile(str(self.path)) as file:  # a mapped one that is cut off ends the process
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            if is_file:
                reader = pyarrow.ipc.open_file(file)
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                yield from pyarrow.ipc.open_stream(file)
