"""A lock file: one process at a time, released by the kernel when that process dies (flock).

File systems without flock get a second file, which its owner touches every few seconds; one that is no longer touched
belongs to a dead process and is taken over.
"""

from __future__ import annotations

__all__ = ["FileLock"]

import json
import os
import socket
import time
from typing import TYPE_CHECKING

import filelock

from s2s.errors import CheckpointError
from s2s.io.atomic import NO_LOCKS
from s2s.io.json_files import read_json

if TYPE_CHECKING:
    from pathlib import Path

HEARTBEAT = 10.0
"""Seconds between two heartbeats"""
STALE = 60.0
"""Seconds without a heartbeat after which an owner on another machine is taken to be dead"""


class FileLock:
    """An exclusive lock on `path`, which names its holder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock: filelock.BaseFileLock | None = None

    @property
    def is_held(self) -> bool:
        """Whether this process has it."""
        return self.lock is not None

    def acquire(self) -> None:
        """Take the lock; CheckpointError names the holder. Waits for a heartbeat at most, where there is no flock."""
        try:
            self.lock = _native(self.path)
        except filelock.Timeout:
            raise self._in_use() from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            self.lock = self._lease()
        self.path.write_text(json.dumps(_holder()))

    def release(self) -> None:
        """Give the lock up."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def _lease(self) -> filelock.BaseFileLock:
        """The file that takes the place of flock."""
        path = self.path.with_name(f"{self.path.name}.alive")
        lease = filelock.SoftFileLease(path, lease_duration=STALE, heartbeat_interval=HEARTBEAT, thread_local=False)
        first = _touched(path)
        try:
            lease.acquire(timeout=2 * STALE, poll_interval=HEARTBEAT / 10, cancel_check=lambda: _touched(path) != first)
        except filelock.Timeout:
            raise self._in_use() from None
        return lease

    def _in_use(self) -> CheckpointError:
        try:
            holder = read_json(self.path)
            who = f"process {holder['pid']} on {holder['host']}, started {holder['started']}"
        except (OSError, ValueError, KeyError, TypeError):
            who = "another process"
        return CheckpointError(f"{self.path.parent} is in use by {who}; wait for it, stop it, or choose another run=…")


def _native(path: Path) -> filelock.BaseFileLock:
    lock = filelock.FileLock(path, mode=0o666, blocking=False, thread_local=False, fallback_to_soft=False)
    lock.acquire()
    return lock


def _touched(path: Path) -> float:
    """When a lease was last touched, by the clock of its file system."""
    try:
        return path.stat().st_mtime
    except OSError:
        return float("inf")


def _holder() -> dict[str, str | int]:
    started = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
