"""A file that replaces flock: created exclusively, and rewritten every few seconds by its owner.

A file that is no longer rewritten belongs to a dead process and is taken over.
"""

from __future__ import annotations

__all__ = ["Heartbeat"]

import json
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from s2s.io.lock_holder import in_use_error, lock_holder
from s2s.io.own_file import open_own

HEARTBEAT = 10.0
"""Seconds between two heartbeats"""
STALE = 60.0
"""Seconds without a heartbeat after which an owner on another machine is considered dead"""


class Heartbeat(threading.Thread):
    """Rewrites the file of its process until it is released."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.stopped = path, threading.Event()
        self.holder = {**lock_holder(), "born": _start_time(os.getpid())}
        self._beat()
        self.start()

    @classmethod
    def take(cls, lock: Path) -> Self:
        """Create the file next to the lock, replacing that of a dead owner; CheckpointError if its owner is alive."""
        path = lock.with_name(f"{lock.name}.alive")
        with suppress(FileNotFoundError):
            written = path.read_text()
            if not _is_alive(path, written):
                _remove(path, written)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            raise in_use_error(path) from None
        return cls(path)

    def run(self) -> None:
        while not self.stopped.wait(HEARTBEAT):
            with suppress(OSError):  # a full disk, or a server that does not answer for a while
                self._beat()

    def _beat(self) -> None:
        with open_own(self.path, "w") as file:
            file.write(json.dumps({**self.holder, "beat": time.monotonic()}))

    def release(self) -> None:
        """Remove the file."""
        self.stopped.set()
        self.join()
        self.path.unlink(missing_ok=True)


def _is_alive(path: Path, written: str) -> bool:
    """Whether the owner is alive: on this machine by its process, on another by its next heartbeat."""
    with suppress(ValueError, KeyError, TypeError):
        owner = json.loads(written)
        if owner["host"] == os.uname().nodename:
            return _start_time(owner["pid"]) == owner["born"]
    until = time.monotonic() + STALE  # clocks of two machines cannot be compared
    while time.monotonic() < until:
        if path.read_text() != written:
            return True
        time.sleep(STALE / 100)
    return False


def _remove(path: Path, written: str) -> None:
    """Remove a dead owner's file; one that a new owner has created in the meantime is put back."""
    mine = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}")
    with suppress(FileNotFoundError, FileExistsError):
        os.rename(path, mine)  # noqa: PTH104  atomic: only one of several attempts succeeds
        if mine.read_text() != written:
            os.link(mine, path)
    mine.unlink(missing_ok=True)


def _start_time(pid: int) -> str:
    """Start time of a process in the kernel's units; empty if there is no such process or no way to find out."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
