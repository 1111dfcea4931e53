"""Nothing is written through a link: not by the functions, and not by the commands that write files in place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from harness.tiny_runs import call, train_tiny
from s2s.errors import DataError
from s2s.io import open_own
from s2s.io.lock import FileLock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINKS: dict[str, Callable[[Path, Path], None]] = {
    "link": lambda path, target: path.symlink_to(target),
    "link to a link": lambda path, target: (path.with_name("other").symlink_to(target), path.symlink_to("other"))[1],
    "hard link": lambda path, target: path.hardlink_to(target),
    "link to nothing": lambda path, target: path.symlink_to(target.with_name("absent")),
    "pipe": lambda path, _: os.mkfifo(path),
}


@pytest.mark.parametrize("mode", ["a", "ab", "w", "wb", "r+b"])
@pytest.mark.parametrize("kind", LINKS)
def test_a_link_is_refused_before_anything_is_changed(kind: str, mode: str, tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "log"
    victim.write_bytes(b"precious")
    LINKS[kind](path, victim)
    with pytest.raises(DataError, match=r"log is a link, or no file"):
        open_own(path, mode)
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(("mode", "content"), [("a", "old\nnew\n"), ("w", "new\n")])
def test_a_file_is_opened_as_usual(mode: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("old\n")
    with open_own(tmp_path / "log", mode, encoding="utf-8") as file:
        file.write("new\n")
    assert (tmp_path / "log").read_text() == content


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / ".lock").symlink_to("victim")
    with pytest.raises(DataError, match="is a link"):
        FileLock(tmp_path / ".lock").acquire()
    assert (tmp_path / "victim").read_bytes() == b"precious"


@pytest.mark.parametrize("name", [".lock", "train.log", ".config.yaml.tmp", "checkpoints/.probe"])
@pytest.mark.parametrize("kind", ["link", "hard link"])
def test_a_run_writes_through_no_link(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    victim, path = tmp_path / "victim", tmp_path / "runs" / "x" / name
    victim.write_bytes(b"precious")
    path.parent.mkdir(parents=True)
    LINKS[kind](path, victim)
    with pytest.raises(AssertionError):  # its exit status
        train_tiny(tmp_path)
    refused = f"{name} is a link" if name != "train.log" else "holds train.log, which a run would replace"
    assert refused in capsys.readouterr().err
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize(
    "name", ["out.txt.partial", "out.txt.partial.crc", "out.txt.partial.json", ".out.txt.made-of.json"]
)
def test_outputs_are_written_through_no_link(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    train_tiny(tmp_path)
    (tmp_path / "victim").write_bytes(b"")
    (tmp_path / name).symlink_to("victim")
    code, _, err = call("s2s-generate", ["run=x", "input=a.en", "output=out.txt"], capsys)
    assert code in (0, 2), err
    assert (tmp_path / "victim").read_bytes() == b""
