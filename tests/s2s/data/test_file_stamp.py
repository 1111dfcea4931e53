"""Files that changed, were touched, or were damaged with their time kept."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from s2s.data import file_stamp
from s2s.data.file_stamp import FileStamp
from s2s.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x"
    path.write_bytes(b"some text\n")
    return path


def damage(file: Path, to: bytes) -> None:
    """Other contents, at the same time."""
    times = file.stat()
    file.write_bytes(to)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_stamp_is_size_time_and_hash(file: Path) -> None:
    stamp = FileStamp.read(file)
    assert (stamp.size, stamp.mtime_ns) == (10, file.stat().st_mtime_ns)
    assert stamp.sha256 == hashlib.sha256(b"some text\n").hexdigest()
    assert stamp.has_time(file)
    assert stamp.has_contents(file)
    assert stamp.is_intact(file)
    with pytest.raises(DataError, match="no such file"):
        FileStamp.read(file.with_name("y"))


def test_a_file_that_was_only_touched_is_the_same(file: Path) -> None:
    stamp = FileStamp.read(file)
    os.utime(file, ns=(1, 1))
    assert not stamp.has_time(file)
    assert stamp.has_contents(file)
    assert stamp.is_intact(file)


@pytest.mark.parametrize("content", [b"sOme text\n", b"longer text\n", b""], ids=["a bit", "longer", "empty"])
def test_other_contents_at_another_time_are_seen(file: Path, content: bytes) -> None:
    stamp = FileStamp.read(file)
    file.write_bytes(content)
    os.utime(file, ns=(1, 1))
    assert not stamp.has_contents(file)
    assert not stamp.is_intact(file)


def test_of_contents_at_the_same_time_the_size_is_seen_and_where_it_was_asked_for_the_rest(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = FileStamp.read(file)
    damage(file, b"sOme text\n")
    assert stamp.has_contents(file), "it is not read"
    monkeypatch.setattr(file_stamp, "ALWAYS_READ", 10)
    assert not stamp.is_intact(file)
    monkeypatch.setattr(file_stamp, "ALWAYS_READ", 9)
    assert stamp.is_intact(file), "a large one is checked when its blocks are read"
    damage(file, b"longer text\n")
    assert not stamp.has_time(file)
    assert not stamp.has_contents(file)
    file.unlink()
    assert not stamp.has_contents(file)
    assert not stamp.is_intact(file)
