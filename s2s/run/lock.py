"""One process at a time: the kernel holds the lock, and lets go when the process dies, however it dies."""

from __future__ import annotations

__all__ = ["Lock"]

import errno
import fcntl
import json
import os
import socket
import time
from typing import TYPE_CHECKING

from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems without locks answer"""


class Lock:
    """A file that says who holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor: int | None = None

    def acquire(self) -> str | None:
        """Take the lock, or raise CheckpointError that names the holder; a warning where there are no locks."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        warning = None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise CheckpointError(f"{self.path.parent} is in use by {self._holder()}") from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                os.close(descriptor)
                raise
            warning = f"{self.path.parent}: no locks on this file system; do not start a run in it twice"
        self.descriptor = descriptor
        # A data worker that outlives a killed run would hold the lock on: children let go of it.
        os.register_at_fork(after_in_child=self.release)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(_self()).encode())
        return warning

    def release(self) -> None:
        """Let go; in a child of the holder, this leaves the holder's lock alone."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def _holder(self) -> str:
        """Who holds it, in words."""
        try:
            holder = json.loads(self.path.read_text())
            who = f"process {holder['pid']} on {holder['host']}, started {holder['started']}"
        except (OSError, ValueError, KeyError, TypeError):
            who = "another process"
        return f"{who}; wait for it, stop it, or choose another run=…"


def _self() -> dict[str, str | int]:
    started = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
