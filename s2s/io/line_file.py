"""A file of lines, gzipped or not, that is written line by line and appears when it is complete."""

from __future__ import annotations

__all__ = ["write_lines"]

import gzip
from contextlib import nullcontext
from typing import IO, TYPE_CHECKING, cast

from s2s.errors import DataError
from s2s.io.atomic import fsync, temporary
from s2s.io.own_file import open_own

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Replace `path`, gzipped if its name ends in .gz, and return the number of lines; DataError on failure."""
    temp, n_lines = temporary(path), 0
    try:
        with open_own(temp, "wb") as raw, _zipped(temp, raw) if path.suffix == ".gz" else nullcontext(raw) as file:
            for n_lines, line in enumerate(lines, 1):  # noqa: B007  the last number is the count
                file.write(f"{line}\n".encode())
        fsync(temp)
        temp.replace(path)
        fsync(path.parent)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        temp.unlink(missing_ok=True)
    return n_lines


def _zipped(path: Path, raw: IO[bytes]) -> IO[bytes]:
    """Without the time, so that the same lines give the same bytes."""
    return cast("IO[bytes]", gzip.GzipFile(path, "wb", mtime=0, fileobj=raw))
