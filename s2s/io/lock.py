"""A lock file: one process at a time, released by the kernel when that process dies (flock).

File systems without flock get a second file, created exclusively and rewritten every few seconds by its owner; one that
is no longer rewritten belongs to a dead process and is taken over.
"""

from __future__ import annotations

__all__ = ["FileLock"]

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

HEARTBEAT = 10.0
"""Seconds between two heartbeats"""
STALE = 60.0
"""Seconds without a heartbeat after which an owner on another machine is taken to be dead"""


class FileLock:
    """An exclusive lock on `path`, which names its holder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor: int | None = None
        self.heartbeat: _Heartbeat | None = None

    @property
    def is_held(self) -> bool:
        """Whether this process has it."""
        return self.descriptor is not None

    def acquire(self) -> None:
        """Take the lock without waiting; CheckpointError names the holder."""
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        os.register_at_fork(after_in_child=self._close)  # a data worker that outlives a killed run would keep it
        try:
            self._lock(self.descriptor)
        except BaseException:
            self._close()
            raise
        os.ftruncate(self.descriptor, 0)
        os.write(self.descriptor, json.dumps(_holder()).encode())

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(self.path) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            self.heartbeat = _take(self.path.with_name(f"{self.path.name}.alive"))

    def release(self) -> None:
        """Give the lock up."""
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self._close()

    def _close(self) -> None:
        self.heartbeat = None
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class _Heartbeat(threading.Thread):
    """Rewrites the file of its process until it is stopped."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.holder, self.stopped = path, _holder(), threading.Event()
        self._beat()
        self.start()

    def run(self) -> None:
        while not self.stopped.wait(HEARTBEAT):
            with suppress(OSError):  # a full disk, or a server that does not answer for a while
                self._beat()

    def _beat(self) -> None:
        self.path.write_text(json.dumps({**self.holder, "beat": time.monotonic()}))

    def stop(self) -> None:
        self.stopped.set()
        self.join()
        self.path.unlink(missing_ok=True)


def _take(path: Path) -> _Heartbeat:
    """Create the file that takes the place of flock, in place of a dead owner's."""
    with suppress(FileNotFoundError):
        found = path.read_text()
        if not _is_alive(path, found):
            _remove(path, found)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        raise _in_use(path) from None
    return _Heartbeat(path)


def _is_alive(path: Path, found: str) -> bool:
    """Whether the owner lives: on this machine by its process, on another by its next heartbeat."""
    with suppress(ValueError, KeyError, TypeError):
        owner = json.loads(found)
        if owner["host"] == socket.gethostname():
            return _start_time(owner["pid"]) == owner["born"]
    until = time.monotonic() + STALE  # clocks of two machines cannot be compared
    while time.monotonic() < until:
        if path.read_text() != found:
            return True
        time.sleep(STALE / 100)
    return False


def _remove(path: Path, found: str) -> None:
    """Remove a dead owner's file; one that a new owner has created in the meantime is put back."""
    mine = path.with_name(f"{path.name}.{socket.gethostname()}.{os.getpid()}")
    with suppress(FileNotFoundError, FileExistsError):
        os.rename(path, mine)  # noqa: PTH104  atomic: one of several that try succeeds
        if mine.read_text() != found:
            os.link(mine, path)
    mine.unlink(missing_ok=True)


def _in_use(path: Path) -> CheckpointError:
    try:
        holder = json.loads(path.read_text())
        who = f"process {holder['pid']} on {holder['host']}, started {holder['started']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return CheckpointError(f"{path.parent} is in use by {who}; wait for it, stop it, or choose another run=…")


def _holder() -> dict[str, str | int]:
    """This process, for `_in_use` and `_is_alive`."""
    started, pid = time.strftime("%Y-%m-%d %H:%M:%S %z"), os.getpid()
    return {"pid": pid, "host": socket.gethostname(), "started": started, "born": _start_time(pid)}


def _start_time(pid: int) -> str:
    """When a process began, as the kernel counts; empty where there is none, or no way to know."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
