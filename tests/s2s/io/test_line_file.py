"""A file of lines is complete or absent."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from s2s.errors import DataError
from s2s.io import write_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_lines_are_counted_and_zipped_by_name_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    assert write_lines(tmp_path / "a", ["x", "ä"]) == 2
    assert (tmp_path / "a").read_text(encoding="utf-8") == "x\nä\n"
    zipped = []
    for _ in range(2):
        assert write_lines(tmp_path / "b.gz", ["x"]) == 1
        zipped.append((tmp_path / "b.gz").read_bytes())
    assert gzip.decompress(zipped[0]) == b"x\n"
    assert zipped[0] == zipped[1]
    assert zipped[0][4:8] == bytes(4), "0: no time stamp is available (RFC 1952)"
    assert write_lines(tmp_path / "none", []) == 0
    assert (tmp_path / "none").read_bytes() == b""


def test_what_cannot_be_made_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def broken() -> Iterator[str]:
        yield "new"
        raise OSError(28, "No space left on device")

    write_lines(tmp_path / "a", ["old"])
    with pytest.raises(DataError, match=r"a: cannot be written \(No space left on device\)"):
        write_lines(tmp_path / "a", broken())
    assert (tmp_path / "a").read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
