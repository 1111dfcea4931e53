"""A lock file: who holds it, what is said to others, and file systems without locks."""

from __future__ import annotations

import json
import os
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from s2s.errors import CheckpointError
from s2s.io import lock
from s2s.io.lock import FileLock, in_use_error, lock_holder

if TYPE_CHECKING:
    from pathlib import Path


def never(_: Path) -> Any:
    raise AssertionError("this file system has locks")


def test_one_at_a_time_holds_a_lock_and_the_error_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "run" / "lock"
    path.parent.mkdir()
    path.write_text("x" * 500)  # of an earlier holder
    first, second = FileLock(path), FileLock(path)
    first.acquire(never)
    holder = json.loads(path.read_text())
    assert holder == lock_holder() | {"started": holder["started"]}
    assert (holder["pid"], holder["host"]) == (os.getpid(), socket.gethostname())
    message = (
        f"run is in use by process {os.getpid()} on {socket.gethostname()}, started {holder['started'][:10]}.*; wait"
    )
    with pytest.raises(CheckpointError, match=message):
        second.acquire(never)
    assert second.descriptor is None
    first.release()
    assert first.descriptor is None
    second.acquire(never)
    second.release()
    second.release()


@pytest.mark.parametrize("text", [None, "", "[1]", "{}", "5"], ids=str)
def test_of_a_lock_that_names_nobody_another_process_is_the_holder(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "lock").write_text(text)
    expected = f"{tmp_path} is in use by another process; wait for it, stop it, or choose another run=…"
    assert str(in_use_error(tmp_path / "lock")) == expected


def test_without_locks_a_substitute_is_taken_and_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "flock", lambda _: False)
    released: list[str] = []
    substitute = SimpleNamespace(release=lambda: released.append("released"))
    held = FileLock(tmp_path / "lock")
    held.acquire(lambda path: released.append(path.name) or substitute)  # type: ignore[func-returns-value]
    assert released == ["lock"]
    held.release()
    assert released == ["lock", "released"]
    held.release()
    assert released == ["lock", "released"]
    nothing = FileLock(tmp_path / "lock")
    nothing.acquire(lambda _: None)
    nothing.release()


def test_a_lock_that_cannot_be_had_leaves_no_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> Any:
        raise CheckpointError("no locks here")

    monkeypatch.setattr(lock, "flock", lambda _: False)
    held = FileLock(tmp_path / "lock")
    with pytest.raises(CheckpointError, match="no locks here"):
        held.acquire(fail)
    assert held.descriptor is None
