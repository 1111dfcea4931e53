"""What a command reports when it ends, alone and as one of several processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from s2s.io.exit_status import MAX_CHARS, ExitStatus, one_line

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "S2S_ERROR_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_one_process_says_it_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitStatus.report("s2s-x", "error: no", 2) == 2
    assert capsys.readouterr() == ("", "s2s-x: error: no\n")


@pytest.mark.parametrize(
    ("rank", "code", "said"),
    [("0", 75, "s2s-x: stopped\n"), ("3", 2, "s2s-x: stopped (rank 3)\n"), ("1", 75, ""), ("1", 130, "")],
)
def test_what_all_ranks_were_asked_for_is_said_by_the_first(
    rank: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", rank)
    assert ExitStatus.report("s2s-x", "stopped", code) == code
    assert capsys.readouterr().err == said


def test_under_a_launcher_each_rank_writes_a_file_and_they_are_read_once_oldest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("S2S_ERROR_DIR", str(tmp_path))
    for second, rank, cause in ((7.0, "0", "self"), (5.0, "2", "peer"), (6.0, "1", "hang")):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setattr("time.time", lambda second=second: second)
        assert ExitStatus.report("s2s-x", f"of {rank}", 3, cause) == 3
    (tmp_path / "3.json").write_text("[1")
    (tmp_path / "4.json").write_text(json.dumps([1]))
    assert capsys.readouterr() == ("", "")
    assert ExitStatus.read_files(tmp_path) == [
        ExitStatus("of 2", 3, "peer", 2, 5.0),
        ExitStatus("of 1", 3, "hang", 1, 6.0),
        ExitStatus("of 0", 3, "self", 0, 7.0),
    ]
    assert ExitStatus.read_files(tmp_path) == []


def test_a_message_is_one_printable_line_of_bounded_length() -> None:
    assert one_line("a\nb\x1b[1mä") == "a\\nb\\x1b[1mä"
    assert one_line("x" * MAX_CHARS) == "x" * MAX_CHARS
    long = one_line("a" * MAX_CHARS + "b" * MAX_CHARS)
    assert long == "a" * (MAX_CHARS // 2) + " … " + "b" * (MAX_CHARS // 2)
