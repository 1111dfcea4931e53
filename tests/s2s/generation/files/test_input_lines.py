"""Lines of files and pipes, whole or in pieces, and what is not a line."""

from __future__ import annotations

import gzip
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from s2s.data.text import INVALID_UTF8, NUL, TOO_LONG
from s2s.generation.files import input_lines
from s2s.generation.files.input_lines import lines_of, piped
from s2s.generation.files.streams import is_stream

if TYPE_CHECKING:
    from pathlib import Path


def in_pieces(monkeypatch: pytest.MonkeyPatch, *chunks: bytes, more: bool = True) -> list[Any]:
    """What `piped` gives of a pipe that is read in these pieces; `more`: the next one is always there already."""
    reads = iter([*chunks, b""])
    monkeypatch.setattr(os, "read", lambda descriptor, n: next(reads))
    monkeypatch.setattr(input_lines.select, "select", lambda *_: ([0] if more else [], [], []))
    return list(piped(0))


def test_lines_of_a_pipe_are_the_same_however_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\ufeffone\r\n\ufefftwo ä\n\nlast".encode()
    lines = ["\ufeffone\r\n", "\ufefftwo ä\n", "\n", "last"]
    for cut in range(1, len(text)):
        with monkeypatch.context() as patch:
            assert in_pieces(patch, text[:cut], text[cut:]) == lines
    assert in_pieces(monkeypatch, *(text[i : i + 1] for i in range(len(text)))) == lines


def test_a_pause_is_told_where_a_line_is_whole_and_nothing_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_pieces(monkeypatch, b"a\nb", b"c", b"\nd\n", more=False) == ["a\n", None, "bc\n", "d\n", None]


def test_what_is_no_text_has_a_mark_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_pieces(monkeypatch, b"a\n\xff\nb\0\nc\n") == ["a\n", INVALID_UTF8, NUL, "c\n"]


@pytest.mark.parametrize(("chunks", "lines"), [
    ([b"12345\nab\n"], ["12345\n", "ab\n"]),
    ([b"123456\nab\n"], [TOO_LONG, "ab\n"]),
    ([b"12345"], ["12345"]),
    ([b"123", b"45\n"], ["12345\n"]),
    ([b"123", b"456", b"7\nab\n"], [TOO_LONG]),
])  # fmt: skip
def test_a_line_has_at_most_so_many_bytes(
    monkeypatch: pytest.MonkeyPatch, chunks: list[bytes], lines: list[Any]
) -> None:
    """Of one without an end no more is held, and none of what follows is read."""
    monkeypatch.setattr(input_lines, "MAX_LINE", 5)
    assert in_pieces(monkeypatch, *chunks) == lines


def test_files_pipes_and_standard_input_are_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\ufeffa\r\nä\n".encode()
    (tmp_path / "plain").write_bytes(text)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(text))
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path / "pipe", os.O_RDWR)  # a writer, so that the reader need not wait for one
    assert is_stream(str(tmp_path / "pipe"))
    assert [list(lines_of(str(tmp_path / name))) for name in ("plain", "packed.gz")] == [["\ufeffa\r\n", "ä\n"]] * 2
    os.write(descriptor, text)
    lines = lines_of(str(tmp_path / "pipe"))
    assert [next(lines), next(lines)] == ["\ufeffa\r\n", "ä\n"]
    os.close(descriptor)
    with (tmp_path / "plain").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert [line for line in lines_of("-") if line is not None] == ["\ufeffa\r\n", "ä\n"]


def test_a_line_of_a_file_that_is_too_long_is_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_lines, "MAX_LINE", 5)
    (tmp_path / "in").write_bytes(b"12345\n123456\nab\n")
    assert list(lines_of(str(tmp_path / "in"))) == ["12345\n", TOO_LONG]
