"""Commands of this environment, each in a fork of this process: whatever this process has imported is there at once."""

from __future__ import annotations

import multiprocessing
import os
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FORK = multiprocessing.get_context("fork")
STREAMS = {1: ".stdout", 2: ".stderr"}
"""File descriptor -> file in the command's folder that receives it; also what a command's own processes write"""
SETTINGS = {"COLUMNS": "100", "OMP_WAIT_POLICY": "PASSIVE"}


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def run(folder: Path, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Done:
    """Run the command `name` in a folder, found by its entry point, with standard input closed."""
    process = FORK.Process(target=_call, args=(folder, name, arguments, {**SETTINGS, **(environment or {})}))
    process.start()
    process.join()
    out, err = ((folder / file).read_text(encoding="utf-8") for file in STREAMS.values())
    assert process.exitcode is not None
    return Done(process.exitcode, out, err)


def commands() -> list[str]:
    """The names of all commands of s2s."""
    names = {point.name for point in entry_points(group="console_scripts")}
    return sorted(name for name in names if name.startswith("s2s-"))


def _call(folder: Path, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    os.chdir(folder)
    os.environ.update(environment)
    for stream, file in STREAMS.items():
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    sys.argv = [name, *arguments]
    (point,) = entry_points(group="console_scripts", name=name)
    sys.exit(point.load()())
