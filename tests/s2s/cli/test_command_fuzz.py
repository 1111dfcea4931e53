"""Whole commands on generated arguments and spoilt files: exit code 0, or 2 and one line; never a traceback."""

from __future__ import annotations

import json
import os
import random
import shutil
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tiny_runs import SMALL, call, train_tiny

from s2s.compose import compose
from s2s.config import Config, GenerateConfig, PrepareConfig
from s2s.plugin import load_plugins
from s2s_average import AverageConfig
from s2s_export import ExportConfig
from s2s_score import ScoreConfig

if TYPE_CHECKING:
    from collections.abc import Callable

N_CASES = int(os.environ.get("S2S_FUZZ", "20"))
"""Cases of each command: always the same few here, as many as wanted with S2S_FUZZ=2500"""

BASE = {
    "s2s-train": [*SMALL, "run=x", "--quiet"],
    "s2s-generate": ["run=x", "threads=1", "input=few.en", "--quiet"],
    "s2s-score": ["task=translation", "hyp=few.de", "ref=few.de", "samples=0"],
    "s2s-prepare": SMALL[:3],
    "s2s-average": ["run=x", "last=2"],
    "s2s-export": ["run=x", "format=marian", "output=exported", "sentences=2"],
    "s2s-plugins": ["list", "arch"],
}
"""What each of them is asked before something in it is made wrong"""
SCHEMAS = {
    "s2s-generate": GenerateConfig,
    "s2s-score": ScoreConfig,
    "s2s-prepare": PrepareConfig,
    "s2s-average": AverageConfig,
    "s2s-export": ExportConfig,
}
ODD = ["", "[", "[a,b]", "{a: 1}", "[few.en,few.de]", "[spoilt,few.de]", "[empty,empty]", "\x00", "\udcff", "\u2028"]
VALUES = """*a &a ${run} ${oc.env:HOME} !!python/name:os.system 0 -1 1 3 1e9 99999999999999999999 nan inf true no null
    1/2 0/0 3/2 a.en few.de spoilt empty folder missing/file runs/x x last ../.. /dev/null spoilt.gz transformer_tiny
    beam greedy translation parsing cuda cpu:9 text tsv jsonl svg ctranslate2 marian step-000004 average best"""
FLAGS = """--help --version --dry-run --print-config --quiet --nonsense -h - -- spoilt few.en = bad.yaml
    runs/x/resolved.yaml runs/x/config.yaml"""
LONG = {"train.steps", "train.devices", "train.compile", "train.profile", "arch", "experiment", "task"}
"""Options whose mistakes may be no mistakes, but a long run: what comes of them is only printed"""


@cache
def keys(command: str) -> list[str]:
    """Every option of a command, and some that it does not have."""
    plugins = load_plugins()
    if command == "s2s-plugins":
        return ["list", "arch", "task"]
    if command == "s2s-train":
        options = [argument for argument in BASE[command] if not argument.startswith("--")]
        return [*compose(Config, options, plugins).origins, "experiment", "plugins", "train", "task.x"]
    own = [field.name for field in fields(SCHEMAS[command])]
    return [*own, "task.src", "search.beam", "search.alpha", "plugins", "data.prepared", "data.max_len", "nonsense"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and files beside it that are not what they should be."""
    folder = tmp_path_factory.mktemp("fuzzed")
    train_tiny(folder)
    for side in ("en", "de"):
        (folder / f"few.{side}").write_text("".join((folder / f"a.{side}").read_text().splitlines(keepends=True)[:3]))
    (folder / "empty").write_bytes(b"")
    (folder / "spoilt").write_bytes(b"\xff\xfe\x00a\n\n\r\n\xed\xa0\x80\n" + bytes(range(256)))
    (folder / "spoilt.gz").write_bytes(b"\x1f\x8b\x08\x00spoilt")
    (folder / "bad.yaml").write_text("train: {steps: [1\n- x")
    (folder / "folder").mkdir()
    return folder


@pytest.mark.parametrize("command", ["s2s-train", "s2s-generate", "s2s-score", "s2s-prepare", "s2s-average"])
def test_what_is_made_wrong_is_right_at_first(
    command: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(copied(trained, tmp_path / "here"))
    code, _, err = call(command, [*BASE[command], *(["train.steps=4"] if command == "s2s-train" else [])], capsys)
    assert code == 0, err


def mistaken(draw: random.Random, command: str) -> list[str]:
    """The arguments of a command, a few of which are replaced, doubled, left out or cut."""
    arguments = list(BASE[command])
    for _ in range(draw.randint(1, 3)):
        kind = draw.randrange(5)
        if kind < 3 or len(arguments) == 1:
            arguments.append(f"{draw.choice(keys(command))}={draw.choice([*ODD, *VALUES.split()])}")
        elif kind == 3:
            arguments.append(draw.choice(FLAGS.split()))
        else:
            del arguments[draw.randrange(len(arguments))]
    if command == "s2s-train":
        arguments.insert(0, "train.steps=4")
    if command == "s2s-train" and any(a.partition("=")[0] in LONG for a in arguments[len(SMALL) :]):
        arguments.append("--print-config")
    return arguments


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
