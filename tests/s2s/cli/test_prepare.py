"""s2s-prepare as a user runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import rich.console

from s2s.cli.prepare import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    for side in ("en", "de"):
        (tmp_path / f"a.{side}").write_text("".join(f"{side} words number {i % 17} [red] \n" for i in range(200)))
    files = f"[{tmp_path / 'a.en'},{tmp_path / 'a.de'}]"
    return [
        "task=translation",
        f"task.train={files}",
        "task.vocab_size=30",
        "recipe=none",
        f"data.prepared={tmp_path / 'prepared'}",
    ]


def test_it_reports_what_was_read_and_kept(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for how in ("made", "found"):
        assert main(arguments) == 0
        out, err = capsys.readouterr()
        assert f"{how} in " in out
        assert "train a: 200 pairs read, 200 kept; " in out
        assert ("learning its vocabulary" in err) == (how == "made")


def test_quiet_says_nothing(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quiet", *arguments]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rich.console.Console, "is_terminal", True)
    assert main(arguments) == 0
    assert "━" in capsys.readouterr().err


def test_a_dry_run_checks_the_files_and_changes_nothing(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--dry-run", *arguments]) == 0
    assert not (tmp_path / "prepared").exists()
    assert f"would be made in {tmp_path / 'prepared'}/translation-" in capsys.readouterr().out
    (tmp_path / "a.de").unlink()
    assert main(["--dry-run", *arguments]) == 2
    assert "a.de: no such file" in capsys.readouterr().err


def test_files_that_are_gone_are_not_needed_once_they_are_prepared(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    (tmp_path / "a.de").unlink()
    assert main(arguments) == 0
    assert "found in " in capsys.readouterr().out


def test_a_bad_line_ends_with_one_line_and_exit_code_2(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.de").write_bytes(b"x\n" * 199 + b"\xff\n")
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert f"s2s-prepare: error: {tmp_path / 'a.de'}:200: invalid UTF-8 byte 0xff at column 1" in err
    assert "Traceback" not in err
