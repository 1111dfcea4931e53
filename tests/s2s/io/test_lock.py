"""A run's lock where the file system has none: an owner with a heartbeat keeps it, a dead one loses it."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from children import in_child, in_children

from s2s.errors import CheckpointError
from s2s.io import lock as module
from s2s.io.lock import FileLock

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(autouse=True)
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(module, "HEARTBEAT", 0.2)
    monkeypatch.setattr(module, "STALE", 0.8)


def refused(path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is in use by process \d+ on .*, started "):
        FileLock(path).acquire()


def test_one_process_has_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    first = FileLock(path)
    first.acquire()
    refused(path)
    assert in_child(lambda: refused(path)) == 0
    first.release()
    second = FileLock(path)
    second.acquire()
    second.release()
    assert [file.name for file in tmp_path.iterdir()] == [".lock"]


def test_a_process_that_was_killed_loses_it_at_once(tmp_path: Path) -> None:
    def die() -> None:
        FileLock(tmp_path / ".lock").acquire()
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(die) == -signal.SIGKILL
    began = time.monotonic()
    FileLock(tmp_path / ".lock").acquire()
    assert time.monotonic() - began < 0.5


def from_another_machine(path: Path, monkeypatch: pytest.MonkeyPatch) -> FileLock:
    """A lock that is held under another host's name."""
    lock = FileLock(path)
    with monkeypatch.context() as patch:
        patch.setattr("filelock._marker.host_name", lambda: "another")
        lock.acquire()
    return lock


def test_another_machine_keeps_it_while_its_heart_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = from_another_machine(tmp_path / ".lock", monkeypatch)
    began = time.monotonic()
    refused(tmp_path / ".lock")
    assert time.monotonic() - began < module.STALE
    held.release()


def test_of_many_that_find_a_dead_owner_elsewhere_one_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the clocks say."""

    def die() -> None:
        held = from_another_machine(tmp_path / ".lock", monkeypatch)
        assert held.is_held
        os.utime(tmp_path / ".lock.alive", (2e9, 2e9))
        os.kill(os.getpid(), signal.SIGKILL)

    def try_it(number: int) -> None:
        with suppress(CheckpointError):
            try:
                FileLock(tmp_path / ".lock").acquire()
            finally:
                (tmp_path / f"tried-{number}").touch()
            (tmp_path / f"has-{number}").touch()
            while len(list(tmp_path.glob("tried-*"))) < 6:  # held until all have tried, however slow the machine is
                time.sleep(0.05)

    assert in_child(die) == -signal.SIGKILL
    assert in_children([lambda number=number: try_it(number) for number in range(6)]) == [0] * 6
    assert len(list(tmp_path.glob("has-*"))) == 1
