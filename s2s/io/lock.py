"""A lock file: one process at a time, released by the kernel when that process dies (flock)."""

from __future__ import annotations

__all__ = ["FileLock", "HeldLock", "in_use", "lock_holder"]

import fcntl
import json
import os
import socket
import time
from typing import TYPE_CHECKING, Protocol

from s2s.errors import CheckpointError
from s2s.io.atomic import NO_LOCKS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class HeldLock(Protocol):
    """What takes the place of flock on a file system without it."""

    def release(self) -> None:
        """Give the lock up."""
        ...


class FileLock:
    """An exclusive lock on `path`, which names its holder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor: int | None = None
        self.held: HeldLock | None = None

    @property
    def is_held(self) -> bool:
        """Whether this process has it."""
        return self.descriptor is not None

    def acquire(self, without_flock: Callable[[Path], HeldLock | None]) -> None:
        """Take the lock without waiting; CheckpointError names the holder.

        without_flock: takes it where the file system has no locks; None: nothing can.
        """
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        os.register_at_fork(after_in_child=self._close)  # a data worker that outlives a killed run would keep it
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            try:
                if isinstance(error, BlockingIOError):
                    raise in_use(self.path) from None
                if error.errno not in NO_LOCKS:
                    raise
                self.held = without_flock(self.path)
            except BaseException:
                self._close()
                raise
        os.ftruncate(self.descriptor, 0)
        os.write(self.descriptor, json.dumps(lock_holder()).encode())

    def release(self) -> None:
        """Give the lock up."""
        if self.held is not None:
            self.held.release()
        self._close()

    def _close(self) -> None:
        self.held = None
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def in_use(path: Path) -> CheckpointError:
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
