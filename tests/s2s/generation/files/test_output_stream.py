"""The plain output: a stream that begins anew each time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from s2s.errors import ConfigError
from s2s.generation.files.output_stream import OutputStream

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_written_anew_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "out"
    for _ in range(2):
        output = OutputStream(str(path))
        assert output.files() == [path]
        assert output.inputs() is None
        assert output.is_done({}) is False
        assert (output.supports_resume, output.line_counting_option, output.unfinished()) == (False, "", "")
        assert output.resume({}, 1) == 0
        output.write(["ä", "b"])
        assert path.read_bytes() == "ä\nb\n".encode(), "flushed"
        output.finish()
        output.close()
        assert output.file.closed


def test_standard_output_stays_open(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = OutputStream("-")
    assert output.files() == []
    assert output.begin({}) == 0
    output.write(["ä"])
    output.close()
    assert not sys.stdout.closed
    assert capfdbinary.readouterr().out == "ä\n".encode()


def test_a_standard_output_that_is_closed_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(ConfigError, match="standard output is closed; give output=FILE"):
        OutputStream("-").begin({})


def test_a_full_device_is_named() -> None:
    output = OutputStream("/dev/full")
    output.begin({})
    for attempt in (lambda: output.write(["a"]), output.close):
        with pytest.raises(OSError, match="No space left") as caught:
            attempt()
        assert caught.value.filename == "/dev/full"
    assert output.file.closed
