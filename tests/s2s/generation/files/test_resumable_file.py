"""What reaches the disk, and when, of an output file that a killed command can continue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from s2s.generation.files.resumable_file import ResumableFile


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
    file = ResumableFile(tmp_path / "out")
    file.begin({"input": "x"})
    file.write(["one", "two"])
    calls.clear()
    file.finish()
    assert (tmp_path / "out").read_text() == "one\ntwo\n"
    written, renamed = calls.index(("fsync", "out.partial")), calls.index(("replace", "out"))
    assert written < calls.index(("replace", ".out.made-of.json")) < renamed
    assert ("fsync", tmp_path.name) in calls[renamed:]


def grown(path: Path) -> ResumableFile:
    """An output of ten lines, written in four pieces by a command that was killed."""
    file = ResumableFile(path)
    file.begin({"input": "x"})
    for first, last in ((0, 3), (3, 4), (4, 9), (9, 10)):
        file.write([f"line {i}" for i in range(first, last)])
    file.close()
    return file


@pytest.mark.parametrize(("place", "n_left"), [(0, 0), (20, 0), (21, 3), (27, 3), (30, 4), (62, 4), (63, 9), (69, 9)])
def test_what_a_disk_changed_in_an_unfinished_output_is_cut_off_and_made_again(
    tmp_path: Path, place: int, n_left: int
) -> None:
    """Every line has 7 bytes; all before the piece with the changed bit stays."""
    file = grown(tmp_path / "out")
    data = bytearray(file.partial.read_bytes())
    data[place] ^= 4
    file.partial.write_bytes(data)
    again = ResumableFile(tmp_path / "out")
    assert again.resume({"input": "x"}, 1) == n_left
    again.write([f"line {i}" for i in range(n_left, 10)])
    again.close()
    assert ResumableFile(tmp_path / "out").resume({"input": "x"}, 1) == 10
    assert (tmp_path / "out.partial").read_text() == "".join(f"line {i}\n" for i in range(10))


def test_a_bit_anywhere_in_the_checksums_costs_lines_and_no_more(tmp_path: Path) -> None:
    whole = grown(tmp_path / "out")
    checksums, lines = whole.checksums.read_bytes(), whole.partial.read_bytes()
    for bit in range(8 * len(checksums)):
        damaged = bytearray(checksums)
        damaged[bit // 8] ^= 1 << bit % 8
        whole.checksums.write_bytes(damaged)
        whole.partial.write_bytes(lines)
        again = ResumableFile(tmp_path / "out")
        n_left = again.resume({"input": "x"}, 1)
        again.close()
        assert n_left == [0, 3, 4, 9][bit // 96]
        assert whole.partial.read_bytes() == lines[: 7 * n_left]


def test_a_finished_output_leaves_nothing_of_its_growth(tmp_path: Path) -> None:
    grown(tmp_path / "out")
    file = ResumableFile(tmp_path / "out")
    assert file.resume({"input": "x"}, 1) == 10
    file.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.made-of.json", "out"]
