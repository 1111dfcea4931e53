"""The tests of a module, run on a mutant of it: in a copy of the tree, in a child that has torch already."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from folders import ROOT

PARTS = ("s2s", "plugins", "tasks", "configs", "examples", "tests", "pyproject.toml", "README.md", "docs", "benchmarks")


class Trial(NamedTuple):
    """What came of the tests."""

    code: int
    """pytest's: 0 if all passed; 5 if there are none; negative: ended by a signal, as when the time was over"""
    seconds: float


class Trials:
    """A copy of the tree, in which one file at a time is another."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.root.mkdir()
        for name in PARTS:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, self.root / name)

    def run(self, module: str, source: str, seconds: float) -> Trial:
        """The tests of `module`, a path such as s2s/io/atomic.py, while it has another source."""
        file = self.root / module
        original = file.read_text()
        file.write_text(source)
        try:
            return self._in_child(tests_of(self.root, module), seconds)
        finally:
            file.write_text(original)

    def _in_child(self, tests: list[Path], seconds: float) -> Trial:
        began, pid = time.monotonic(), os.fork()
        if not pid:
            _become(self.root, tests)
        waits = os.pidfd_open(pid)
        if not select.select([waits], [], [], seconds)[0]:
            os.killpg(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(waits)
        return Trial(code, time.monotonic() - began)


def _become(root: Path, tests: list[Path]) -> None:
    """Run the tests of the copy; never returns."""
    code = 99
    try:
        os.setsid()
        os.chdir(root)
        sys.path[:0] = [str(root / part) for part in ("tests/harness", "", "plugins", "tasks")]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:4])  # for the commands that tests start
        sys.dont_write_bytecode = True
        torch.set_num_threads(1)
        for descriptor in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        code = pytest.main(["-q", "-x", "-n0", "-p", "no:cacheprovider", *map(str, tests)])
    finally:
        os._exit(code)


def tests_of(root: Path, module: str) -> list[Path]:
    """The test files that name a module, or are called after it; else those of the folder that mirrors its own."""
    path = Path(module)
    dotted = ".".join(path.with_suffix("").parts[0 if path.parts[0] == "s2s" else 1 :]).removesuffix(".__init__")
    files = sorted((root / "tests").rglob("test_*.py"))
    named = [f for f in files if f.stem == f"test_{path.stem}" or dotted in f.read_text()]
    return named or sorted((root / "tests" / path.parent).glob("test_*.py"))
