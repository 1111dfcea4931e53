"""flock of the kernel, and on file systems without it."""

from __future__ import annotations

import errno
import fcntl
from typing import TYPE_CHECKING

import pytest

from s2s.io.kernel_lock import flock

if TYPE_CHECKING:
    from pathlib import Path


def test_one_open_file_has_it_until_it_is_closed(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as first, (tmp_path / "lock").open("w") as second:
        assert flock(first)
        with pytest.raises(BlockingIOError):
            flock(second)
        first.close()
        assert flock(second.fileno())


def failing(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, "made up")

    monkeypatch.setattr(fcntl, "flock", fail)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_no_error(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(code, monkeypatch)
    assert not flock(0)


def test_any_other_error_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(errno.EIO, monkeypatch)
    with pytest.raises(OSError, match="made up"):
        flock(0)
