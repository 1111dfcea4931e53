"""One process at a time: the kernel holds the lock, and lets go when the process dies, however it dies.

On file systems without locks a second file takes its place, which only one process can make. Its owner renews it;
one that has not been renewed for a while was left behind by a process that died.
"""

from __future__ import annotations

__all__ = ["Lock"]

import fcntl
import json
import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from s2s.errors import CheckpointError
from s2s.io.atomic import NO_LOCKS

RENEWED = 10.0
"""Seconds between two signs of life"""
STALE = 60.0
"""Seconds without one after which the owner is taken to be dead"""


class Lock:
    """A file that says who holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor: int | None = None
        self.heartbeat: Heartbeat | None = None

    def acquire(self) -> None:
        """Take the lock, or raise CheckpointError that names the holder."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise CheckpointError(self._refusal(self.path)) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                os.close(descriptor)
                raise
            self.heartbeat = self._without_locks()
        self.descriptor = descriptor
        # A data worker that outlives a killed run would hold the lock on: children let go of it.
        os.register_at_fork(after_in_child=self._forget)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(_self()).encode())

    def release(self) -> None:
        """Let go."""
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self._forget()

    def _forget(self) -> None:
        """In a child of the holder: leave the holder's lock alone."""
        self.heartbeat = None
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def _without_locks(self) -> Heartbeat:
        path = self.path.with_name(f"{self.path.name}.alive")
        with suppress(FileNotFoundError):
            found = path.read_text()
            if not _is_alive(path, found):
                _take_away(path, found)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            raise CheckpointError(self._refusal(path)) from None
        return Heartbeat(path)

    def _refusal(self, path: Path) -> str:
        """Who holds it, in words."""
        try:
            holder = json.loads(path.read_text())
            who = f"process {holder['pid']} on {holder['host']}, started {holder['started']}"
        except (OSError, ValueError, KeyError, TypeError):
            who = "another process"
        return f"{self.path.parent} is in use by {who}; wait for it, stop it, or choose another run=…"


class Heartbeat:
    """Signs of life of the owner of a file, until it stops."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.owner = _self()
        self.over = threading.Event()
        self._beat(0)
        self.thread = threading.Thread(target=self._keep, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Leave the place to others."""
        self.over.set()
        self.thread.join()
        self.path.unlink(missing_ok=True)

    def _keep(self) -> None:
        n_beats = 1
        while not self.over.wait(RENEWED):
            with suppress(OSError):  # a full disk, or one that does not answer for a while
                self._beat(n_beats)
            n_beats += 1

    def _beat(self, number: int) -> None:
        self.path.write_text(json.dumps({**self.owner, "beat": number}))


def _is_alive(path: Path, found: str) -> bool:
    """Whether the owner of the file lives: here the kernel knows, elsewhere one has to wait for a sign of life."""
    with suppress(ValueError, KeyError, TypeError):
        owner = json.loads(found)
        if owner["host"] == socket.gethostname():
            return _born(owner["pid"]) == owner["born"]
    until = time.monotonic() + STALE  # what the clocks of two machines say about a file cannot be compared
    while time.monotonic() < until:
        if path.read_text() != found:
            return True
        time.sleep(STALE / 100)
    return False


def _take_away(path: Path, found: str) -> None:
    """Remove a dead owner's file; one that a new owner has made in the meantime is put back."""
    mine = path.with_name(f"{path.name}.{socket.gethostname()}.{os.getpid()}")
    with suppress(FileNotFoundError, FileExistsError):
        os.rename(path, mine)  # noqa: PTH104  one step: of several that try, one has it
        if mine.read_text() != found:
            os.link(mine, path)
    mine.unlink(missing_ok=True)


def _self() -> dict[str, str | int]:
    started = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": started, "born": _born(os.getpid())}


def _born(pid: int) -> str:
    """When a process began, as the kernel counts; empty where there is none, or no way to know."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
