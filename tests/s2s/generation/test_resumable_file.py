"""What reaches the disk, and when, of an output file that a killed command can continue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.generation.resumable_file import ResumableFile

if TYPE_CHECKING:
    import pytest


def test_an_output_is_on_the_disk_before_it_has_its_name_and_its_name_before_the_command_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut between any two of these steps leaves the file of before, or all of the new one."""
    calls: list[tuple[str, str]] = []

    def recorded(name: str, path_of: Any) -> None:
        real = getattr(os, name)

        def call(*arguments: Any) -> Any:
            calls.append((name, path_of(*arguments)))
            return real(*arguments)

        monkeypatch.setattr(os, name, call)

    recorded("fsync", lambda descriptor: Path(f"/proc/self/fd/{descriptor}").readlink().name)
    recorded("replace", lambda _, target: Path(target).name)
    file = ResumableFile(tmp_path / "out", 1)
    file.begin({"input": "x"})
    file.write(["one", "two"])
    calls.clear()
    file.finish()
    assert (tmp_path / "out").read_text() == "one\ntwo\n"
    written, renamed = calls.index(("fsync", "out.partial")), calls.index(("replace", "out"))
    assert written < calls.index(("replace", ".out.made-of.json")) < renamed
    assert ("fsync", tmp_path.name) in calls[renamed:]
