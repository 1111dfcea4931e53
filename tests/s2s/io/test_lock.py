"""A lock file: who holds it, what is said to others, and file systems without locks."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, NoReturn

import pytest

from s2s.errors import CheckpointError
from s2s.io import lock
from s2s.io.heartbeat import Heartbeat
from s2s.io.lock import FileLock
from s2s.io.lock_holder import in_use_error, lock_holder

if TYPE_CHECKING:
    from pathlib import Path


def test_one_at_a_time_holds_a_lock_and_the_error_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "run" / "lock"
    path.parent.mkdir()
    path.write_text("x" * 500)  # of an earlier holder
    first, second = FileLock(path), FileLock(path)
    first.acquire()
    holder = json.loads(path.read_text())
    assert holder == lock_holder() | {"started": holder["started"]}
    assert (holder["pid"], holder["host"]) == (os.getpid(), socket.gethostname())
    message = (
        f"run is in use by process {os.getpid()} on {socket.gethostname()}, started {holder['started'][:10]}.*; wait"
    )
    with pytest.raises(CheckpointError, match=message):
        second.acquire()
    assert second.descriptor is None
    first.release()
    assert first.descriptor is None
    second.acquire()
    second.release()
    second.release()


@pytest.mark.parametrize("text", [None, "", "[1]", "{}", "5"], ids=str)
def test_the_holder_of_a_lock_without_a_name_is_another_process(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "lock").write_text(text)
    expected = f"{tmp_path} is in use by another process; wait for it, stop it, or choose another folder"
    assert str(in_use_error(tmp_path / "lock")) == expected


def test_a_file_system_that_fails_leaves_no_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> NoReturn:
        raise CheckpointError("no locks here")

    monkeypatch.setattr(lock, "flock", lambda _: False)
    monkeypatch.setattr(Heartbeat, "take", fail)
    held = FileLock(tmp_path / "lock")
    with pytest.raises(CheckpointError, match="no locks here"):
        held.acquire()
    assert held.descriptor is None
