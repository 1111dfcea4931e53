"""Commands of this environment, each in a fork of this process, which imports what they have imported: once for all."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORK = multiprocessing.get_context("fork")
WARM = re.compile(r"s2s(?!.*__main__)|torch$|torch\._dynamo$|torch\.distributed\.tensor$")
"""Modules that this process imports when a command has; importing them starts no threads"""
MODULES = ".modules"
"""File of the names of the modules that a command has imported"""
STREAMS = {1: ".stdout", 2: ".stderr"}
"""File descriptor -> file in the command's folder that receives it; also what a command's own processes write"""
SETTINGS = {"COLUMNS": "100", "OMP_WAIT_POLICY": "PASSIVE"}


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def run(folder: Path, line: str, environment: Mapping[str, str] | None = None) -> Done:
    """Run a command line in a folder, with standard input closed."""
    process = FORK.Process(target=_call, args=(folder, words(line), {**SETTINGS, **(environment or {})}))
    process.start()
    process.join()
    out, err = ((folder / file).read_text(encoding="utf-8") for file in STREAMS.values())
    assert process.exitcode is not None
    for module in (folder / MODULES).read_text(encoding="utf-8").split():
        import_module(module)
    return Done(process.exitcode, out, err)


def commands() -> list[str]:
    """The names of all commands of s2s."""
    names = {point.name for point in entry_points(group="console_scripts")}
    return sorted(name for name in names if name.startswith("s2s-"))


def words(line: str) -> list[str]:
    """A line split at blanks outside brackets and braces."""
    found, depth = [""], 0
    for part in line.split():
        found[-1] += f" {part}" if depth else part
        depth += sum(map(part.count, "{[")) - sum(map(part.count, "}]"))
        if not depth:
            found.append("")
    return found[:-1]


def _call(folder: Path, argv: Sequence[str], environment: Mapping[str, str]) -> None:
    os.chdir(folder)
    os.environ.update(environment)
    for stream, file in STREAMS.items():
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    sys.argv = [*argv]
    (point,) = entry_points(group="console_scripts", name=argv[0])
    try:
        sys.exit(point.load()())
    finally:
        Path(folder, MODULES).write_text("\n".join(filter(WARM.match, [*sys.modules])), encoding="utf-8")
