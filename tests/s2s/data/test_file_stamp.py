"""Files that changed, were touched, or were damaged with their time kept."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import replace
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
    """Other contents, at the same modification time, as `cp -p` and `rsync -t` leave them."""
    times = file.stat()
    file.write_bytes(to)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def at_the_same_times(stamp: FileStamp, file: Path) -> FileStamp:
    """The stamp as if the clock had been set back before the file was changed."""
    return replace(stamp, ctime_ns=file.stat().st_ctime_ns)


def test_a_stamp_is_size_time_and_hash(file: Path) -> None:
    stamp = FileStamp.read(file)
    assert (stamp.size, stamp.mtime_ns) == (10, file.stat().st_mtime_ns)
    assert (stamp.ctime_ns, stamp.samples) == (file.stat().st_ctime_ns, "")
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
    assert stamp.is_current(file)
    assert stamp.is_intact(file)
    renewed = stamp.renewed(file)
    assert renewed.has_time(file)
    assert renewed == replace(stamp, mtime_ns=1, ctime_ns=file.stat().st_ctime_ns)


@pytest.mark.parametrize("content", [b"sOme text\n", b"longer text\n", b""], ids=["a bit", "longer", "empty"])
def test_other_contents_at_another_time_are_seen(file: Path, content: bytes) -> None:
    stamp = FileStamp.read(file)
    file.write_bytes(content)
    os.utime(file, ns=(1, 1))
    assert not stamp.has_contents(file)
    assert not stamp.is_intact(file)


def test_other_contents_of_equal_size_and_modification_time_are_seen(file: Path) -> None:
    stamp = FileStamp.read(file)
    time.sleep(0.02)  # longer than a tick of the file system's clock
    damage(file, b"sOme text\n")
    assert (stamp.size, stamp.mtime_ns) == (10, file.stat().st_mtime_ns)
    assert not stamp.has_time(file)
    assert not stamp.has_contents(file)
    assert not stamp.is_current(file)


def test_of_contents_at_the_same_times_the_size_is_seen_and_where_it_was_asked_for_the_rest(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = FileStamp.read(file)
    damage(file, b"sOme text\n")
    stamp = at_the_same_times(stamp, file)
    assert stamp.has_contents(file), "it is not read"
    assert not stamp.is_current(file), "an input is read at every start"
    monkeypatch.setattr(file_stamp, "ALWAYS_READ", 10)
    assert not stamp.is_intact(file)
    monkeypatch.setattr(file_stamp, "ALWAYS_READ", 9)
    assert stamp.is_intact(file), "a large one is checked when its blocks are read"
    damage(file, b"longer text\n")
    assert not stamp.has_time(file)
    assert not stamp.has_contents(file)
    file.unlink()
    assert not stamp.has_contents(file)
    assert not stamp.is_current(file)
    assert not stamp.is_intact(file)


def test_a_stamp_of_an_earlier_version_proves_nothing_by_its_time(file: Path) -> None:
    now = FileStamp.read(file)
    earlier = FileStamp(now.size, now.mtime_ns, now.sha256)
    assert not earlier.has_time(file)
    assert earlier.has_contents(file)
    assert earlier.renewed(file) == now
    damage(file, b"sOme text\n")
    assert not earlier.has_contents(file)


@pytest.mark.parametrize("change", [None, 0, 9, 490, 999], ids=str)
def test_of_a_large_file_blocks_are_read_the_first_and_the_last_among_them(
    file: Path, monkeypatch: pytest.MonkeyPatch, change: int | None
) -> None:
    for name, value in {"READ_WHOLE": 100, "N_BLOCKS": 3, "BLOCK": 20}.items():
        monkeypatch.setattr(file_stamp, name, value)
    data = bytearray(1000)
    file.write_bytes(data)
    stamp = FileStamp.read(file)
    monkeypatch.setattr(file_stamp, "sha256", lambda path: pytest.fail("it is read whole"))
    if change is not None:
        data[change] = 1
        file.write_bytes(data)
    stamp = replace(at_the_same_times(stamp, file), mtime_ns=file.stat().st_mtime_ns)
    assert stamp.is_current(file) == (change is None)
    data[300] = 1
    file.write_bytes(data)
    between = replace(at_the_same_times(stamp, file), mtime_ns=file.stat().st_mtime_ns)
    assert between.is_current(file) == (change is None), "a change between the blocks is not seen"
    monkeypatch.undo()
    assert not stamp.is_current(file), "unless one of the times has changed, too"
