"""Whole commands on generated arguments and damaged files: exit code 0, or 2 and one line; never a traceback."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from attack.mistakes import BASE, mistaken, write_odd_files
from harness.tiny_runs import call, train_tiny

if TYPE_CHECKING:
    from collections.abc import Callable

N_CASES = int(os.environ.get("S2S_FUZZ", "20"))
"""Cases of each command: always the same few here, as many as wanted with S2S_FUZZ=2500"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and files beside it that are not what they should be."""
    folder = tmp_path_factory.mktemp("fuzzed")
    train_tiny(folder)
    for side in ("en", "de"):
        (folder / f"few.{side}").write_text("".join((folder / f"a.{side}").read_text().splitlines(keepends=True)[:3]))
    write_odd_files(folder)
    return folder


@pytest.mark.parametrize("command", ["s2s-train", "s2s-generate", "s2s-score", "s2s-prepare", "s2s-average"])
def test_what_is_made_wrong_is_right_at_first(
    command: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(copied(trained, tmp_path / "here"))
    code, _, err = call(command, [*BASE[command], *(["train.steps=4"] if command == "s2s-train" else [])], capsys)
    assert code == 0, err


def copied(trained: Path, folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(trained, folder, symlinks=True)
    return folder


@pytest.mark.parametrize("command", BASE)
def test_any_arguments_end_well_or_in_one_line(
    command: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    draw = random.Random(f"{command} {N_CASES}")
    for number in range(N_CASES):
        if number % 20 == 0:
            monkeypatch.chdir(trained)
            monkeypatch.chdir(copied(trained, tmp_path / "here"))
        arguments = mistaken(draw, command)
        with pytest.MonkeyPatch.context() as patch, Path(os.devnull).open() as nothing:
            patch.setattr("sys.stdin", nothing)
            try:
                call(command, arguments, capsys)
            except BaseException as error:
                raise AssertionError(f"{command} {arguments}") from error


def flipped(draw: random.Random, data: bytes) -> bytes:
    if not data:
        return b"?"
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]


SPOIL: list[Callable[[random.Random, bytes], bytes]] = [
    flipped,
    lambda draw, data: data[: draw.randrange(len(data) + 1)],
    lambda draw, data: draw.randbytes(draw.randrange(200)),
    lambda draw, data: data + draw.randbytes(10),
    lambda draw, data: json.dumps(draw.choice([None, [], {}, 5, "x"])).encode(),
    lambda draw, data: b"",
]
AFTER = ["s2s-train", "s2s-generate", "s2s-average"]


def test_any_spoilt_file_of_a_run_ends_well_or_in_one_line(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    draw = random.Random(N_CASES)
    for _ in range(N_CASES // 4):
        monkeypatch.chdir(trained)
        here = copied(trained, tmp_path / "here")
        monkeypatch.chdir(here)
        files = sorted(path for path in here.rglob("*") if path.is_file() and not path.is_symlink())
        file, how = draw.choice(files), draw.randrange(len(SPOIL))
        file.write_bytes(SPOIL[how](draw, file.read_bytes()))
        command = draw.choice(AFTER)
        arguments = [*BASE[command], *(["train.steps=5"] if command == "s2s-train" else [])]
        try:
            call(command, arguments, capsys)
        except BaseException as error:
            raise AssertionError(f"{command} after {file.relative_to(here)} was spoilt, way {how}") from error
