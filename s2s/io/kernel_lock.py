"""flock: a lock that the kernel releases when its process dies, where the file system supports it."""

from __future__ import annotations

__all__ = ["flock"]

import errno
import fcntl
from typing import IO

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors on file systems without locks, such as some network file systems"""


def flock(file: int | IO[str]) -> bool:
    """Lock an open file without waiting; False where there are no locks; BlockingIOError if another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True
