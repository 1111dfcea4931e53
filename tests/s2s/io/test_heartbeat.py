"""A run's lock where the file system has none: an owner with a heartbeat keeps it, a dead one loses it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from harness.forked_children import in_child, in_children
from s2s.errors import CheckpointError
from s2s.io import heartbeat
from s2s.io.lock import FileLock

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(autouse=True)
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(heartbeat, "HEARTBEAT", 0.1)
    monkeypatch.setattr(heartbeat, "STALE", 0.8)


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


def elsewhere(path: Path, beats: int = 0) -> None:
    """As if a process of another machine wrote it, whose number is that of a process here."""
    owner = {"pid": os.getpid(), "host": "another", "started": "now", "born": "1", "beat": beats}
    path.with_name(".lock.alive").write_text(json.dumps(owner))


def test_another_machine_keeps_it_while_its_heart_beats(tmp_path: Path) -> None:
    elsewhere(tmp_path / ".lock")
    over = threading.Event()

    def live() -> None:
        beats = 0
        while not over.wait(0.2):
            elsewhere(tmp_path / ".lock", beats := beats + 1)

    thread = threading.Thread(target=live)
    thread.start()
    refused(tmp_path / ".lock")
    over.set()
    thread.join()


def test_another_machine_without_a_heartbeat_loses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clocks say."""
    elsewhere(tmp_path / ".lock")
    os.utime(tmp_path / ".lock.alive", (2e9, 2e9))
    lock = FileLock(tmp_path / ".lock")
    lock.acquire()
    assert json.loads((tmp_path / ".lock.alive").read_text())["pid"] == os.getpid()
    lock.release()


def test_of_many_that_find_a_dead_owner_one_takes_its_place(tmp_path: Path) -> None:
    elsewhere(tmp_path / ".lock")

    def try_it(number: int) -> None:
        with suppress(CheckpointError):
            FileLock(tmp_path / ".lock").acquire()
            (tmp_path / f"has-{number}").touch()
            time.sleep(1.5)

    assert in_children([lambda number=number: try_it(number) for number in range(6)]) == [0] * 6
    assert len(list(tmp_path.glob("has-*"))) == 1


def test_its_owner_renews_it(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / ".lock")
    lock.acquire()
    before = (tmp_path / ".lock.alive").read_text()
    time.sleep(0.4)
    assert (tmp_path / ".lock.alive").read_text() != before
    lock.release()
