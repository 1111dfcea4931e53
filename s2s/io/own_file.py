"""Files that are written in place, such as logs and locks: a link with such a name would lead the writing elsewhere."""

from __future__ import annotations

__all__ = ["open_own", "own_descriptor"]

import errno
import os
import stat
from typing import IO, TYPE_CHECKING, Any

from s2s.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path


def open_own(path: Path, mode: str, encoding: str | None = None) -> IO[Any]:
    """Open a file for writing, with "\\n" at the ends of lines; raises DataError as `own_descriptor` does."""
    newline = None if "b" in mode else "\n"
    return open(path, mode, encoding=encoding, newline=newline, opener=own_descriptor)


def own_descriptor(path: str | Path, flags: int) -> int:
    """As `os.open`; raises DataError for a link, soft or hard, and for what is no file, such as a pipe.

    Nothing is changed before that is known: a file is truncated afterwards.
    """
    # Without O_NONBLOCK, opening a pipe without a reader would wait.
    safe = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags & ~os.O_TRUNC | safe, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _refused(path) from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise _refused(path)
    if flags & os.O_TRUNC:
        os.ftruncate(descriptor, 0)
    return descriptor


def _refused(path: str | Path) -> DataError:
    return DataError(f"{path} is a link, or no file, so that something else would be written to; remove it")
