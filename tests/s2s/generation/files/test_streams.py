"""Paths that are not files, and standard input."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

import pytest

from s2s.errors import ConfigError
from s2s.generation.files.streams import is_stream, standard_input

if TYPE_CHECKING:
    from pathlib import Path


def test_a_stream_is_what_is_neither_a_file_nor_a_folder_nor_missing(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    os.mkfifo(tmp_path / "pipe")
    assert all(map(is_stream, ["-", "/dev/null", str(tmp_path / "pipe")]))
    assert not any(map(is_stream, [*map(str, (tmp_path, tmp_path / "plain", tmp_path / "gone")), "x" * 5000]))


def test_standard_input_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdin", file)
    assert standard_input() is file


def test_a_closed_standard_input_is_an_error_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConfigError, match=r"^standard input is closed; name a file to read$"):
        standard_input()
