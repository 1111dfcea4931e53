"""A lock file: one process at a time, released by the kernel when that process dies (flock)."""

from __future__ import annotations

__all__ = ["FileLock", "in_use_error", "lock_holder"]

import json
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from s2s.errors import CheckpointError
from s2s.io.kernel_lock import flock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class FileLock:
    """An exclusive lock on `path`, which names its holder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor: int | None = None
        """Of the locked file; None: not held"""
        self.substitute: Any = None
        """What holds the lock on a file system without flock: an object to `release`"""

    def acquire(self, without_flock: Callable[[Path], Any]) -> None:
        """Take the lock without waiting; if another process has it, CheckpointError names that process.

        without_flock: returns the substitute on a file system without locks; None: nothing can lock there.
        """
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        os.register_at_fork(after_in_child=self._close)  # a data worker that outlives a killed run would keep it
        try:
            if not flock(self.descriptor):
                self.substitute = without_flock(self.path)
        except BlockingIOError:
            self._close()
            raise in_use_error(self.path) from None
        except BaseException:
            self._close()
            raise
        os.ftruncate(self.descriptor, 0)
        os.write(self.descriptor, json.dumps(lock_holder()).encode())

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self.substitute is not None:
            self.substitute.release()
        self._close()

    def _close(self) -> None:
        descriptor, self.descriptor, self.substitute = self.descriptor, None, None
        if descriptor is not None:
            os.close(descriptor)


def in_use_error(path: Path) -> CheckpointError:
    """The error for a lock that another process holds, by what `lock_holder` wrote into it."""
    try:
        holder = json.loads(path.read_text())
        who = f"process {holder['pid']} on {holder['host']}, started {holder['started']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return CheckpointError(f"{path.parent} is in use by {who}; wait for it, stop it, or choose another run=…")


def lock_holder() -> dict[str, str | int]:
    """This process."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": time.strftime("%Y-%m-%d %H:%M:%S %z")}
