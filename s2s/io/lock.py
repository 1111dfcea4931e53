"""A lock file: one process at a time, released by the kernel when that process dies (flock).

On a file system without locks, such as some network file systems, a heartbeat takes its place.
"""

from __future__ import annotations

__all__ = ["FileLock"]

import json
import os
from typing import TYPE_CHECKING

from s2s.io.heartbeat import Heartbeat
from s2s.io.kernel_lock import flock
from s2s.io.lock_holder import in_use_error, lock_holder
from s2s.io.own_file import own_descriptor

if TYPE_CHECKING:
    from pathlib import Path


class FileLock:
    """An exclusive lock on `path`, which names its holder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor: int | None = None
        """Of the locked file; None: not held"""
        self.heartbeat: Heartbeat | None = None
        """Holds the lock on a file system without flock"""
        os.register_at_fork(after_in_child=self._close)  # a data worker that outlives a killed run would keep it

    def acquire(self) -> None:
        """Take the lock without waiting.

        Raises CheckpointError naming the process that has it, and DataError for a link.
        """
        self.descriptor = own_descriptor(self.path, os.O_RDWR | os.O_CREAT)
        try:
            if not flock(self.descriptor):
                self.heartbeat = Heartbeat.take(self.path)
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
        if self.heartbeat is not None:
            self.heartbeat.release()
        self._close()

    def _close(self) -> None:
        descriptor, self.descriptor, self.heartbeat = self.descriptor, None, None
        if descriptor is not None:
            os.close(descriptor)
