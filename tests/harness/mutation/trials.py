"""The tests that may see a mutant, run in a copy of the tree that has it, in a child that has torch already."""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from folders import ROOT

from mutation.calls import CallMap, Calls, Recorder
from mutation.mutants import exported
from mutation.selection import Selection, nearest, select_tests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mutation.sample import Candidate

PARTS = ("s2s", "plugins", "tasks", "configs", "examples", "tests", "pyproject.toml", "README.md", "docs", "benchmarks")
PRELOADED = (
    "hypothesis",
    "omegaconf",
    "sentencepiece",
    "sacrebleu",
    "safetensors.torch",
    "rich.console",
    "nltk",
    "xdist",
)
OURS = ("s2s", "mutation", "folders")
PER_FILE = 900
"""Seconds for recording a test file"""
DATA_BYTES, FILE_BYTES = 8 << 30, 4 << 30
"""What a mutant that runs away may take of memory and of a file"""


IMPORT = ("import", "")
"""What fails where no test file can be imported"""


class Outcome(NamedTuple):
    """What came of a mutant."""

    fate: str
    """killed, hung (or ended without an answer), survived, or no tests"""
    test: str = ""
    """Which saw it"""


class Trials:
    """A copy of the tree, in which one file at a time is another."""

    def __init__(self, folder: Path, calls: CallMap) -> None:
        self.folder, self.root, self.calls = folder, folder / "tree", calls
        self.tests: dict[str, list[Calls]] = {}
        self.reliable: dict[tuple[str, str], bool] = {}
        self.root.mkdir()
        for name in PARTS:
            source, copy = ROOT / name, self.root / name
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, copy)
        files = sorted(file for file in (self.root / "tests").rglob("test_*.py") if not file.stem.endswith("_fuzz"))
        self.texts = {str(file.relative_to(self.root)): file.read_text() for file in files}
        torch.set_num_threads(1)
        for name in PRELOADED:
            importlib.import_module(name)

    def run(self, candidate: Candidate) -> Outcome:
        """Run the tests that call what a mutant changes until one that passes without it fails.

        First those of all files near it that are recorded, then file by file, as long as it survives.
        """
        files = nearest(self.texts, candidate.module, exported((self.root / candidate.module).read_text()))
        known = {name: tests for name in files if (tests := self._known(name)) is not None}
        outcome = self._run_some(candidate, known)
        for name in (name for name in files if name not in known):
            if outcome and outcome.fate in ("killed", "hung"):
                break
            self.tests[name] = self._record(name)
            outcome = self._run_some(candidate, {name: self.tests[name]}) or outcome
        return outcome or Outcome("no tests")

    def _known(self, name: str) -> list[Calls] | None:
        """The tests of a file that is recorded."""
        if name not in self.tests and (kept := self.calls.get(self.root / name, name)) is not None:
            self.tests[name] = kept
        return self.tests.get(name)

    def _run_some(self, candidate: Candidate, tests: dict[str, list[Calls]]) -> Outcome | None:
        """None if there are none that might see it."""
        unreliable: set[tuple[str, str]] = {test for test, passes in self.reliable.items() if not passes}
        selection = select_tests(tests, candidate.module, candidate.mutant.function, unreliable)
        if not selection.files:
            return None
        failed = self._mutated(candidate, selection)
        if failed is None:
            return Outcome("survived")
        if failed == ("", ""):
            return Outcome("hung")
        if failed == IMPORT:
            return Outcome("killed", "import")
        if failed not in self.reliable:
            alone = Selection({failed[0]: {failed[1]}}, selection.seconds)
            self.reliable[failed] = self._failure(alone) is None
        return Outcome("killed", "::".join(failed)) if self.reliable[failed] else self._run_some(candidate, tests)

    def _mutated(self, candidate: Candidate, selection: Selection) -> tuple[str, str] | None:
        file = self.root / candidate.module
        original, times = file.read_text(), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
        file.write_text(candidate.mutant.source)
        try:
            return self._failure(selection)
        finally:
            file.write_text(original)
            os.utime(file, ns=times)  # bytecode that was written before is valid again

    def _failure(self, selection: Selection) -> tuple[str, str] | None:
        """File and name of the first test that failed; two empty strings if the time was over."""
        plugin = Chosen(selection)
        answer = self._in_child(lambda: (_pytest(self.folder, list(selection.files), plugin), plugin.failed), selection)
        if answer is None:
            return ("", "")
        code, failed = answer
        return None if code in (0, 5) else (failed[0], failed[1]) if failed else IMPORT

    def _record(self, name: str) -> list[Calls]:
        recorder, began = Recorder(self.root), time.monotonic()
        code, tests = self._in_child(
            lambda: (_pytest(self.folder, [name], recorder), recorder.tests()), PER_FILE, write=True
        ) or (-1, [])
        tests = [Calls(test, seconds, frozenset(calls)) for test, seconds, calls in tests]
        print(f"{name}: {len(tests)} tests, {time.monotonic() - began:.0f} s, pytest says {code}", flush=True)
        if code in (0, 1):
            self.calls.set(self.root / name, name, tests)
        return tests

    def _in_child(self, action: Callable[[], Any], limit: float | Selection, *, write: bool = False) -> Any:
        """What an action returned in a child, through JSON; None if the time was over or it ended otherwise."""
        seconds = 20 + 5 * limit.seconds if isinstance(limit, Selection) else limit
        reads, writes = os.pipe()
        if not (pid := os.fork()):
            _become(self.root, action, writes, write)
        os.close(writes)
        text, until = b"", time.monotonic() + seconds
        while select.select([reads], [], [], max(until - time.monotonic(), 0))[0]:
            text += (block := os.read(reads, 1 << 16))
            if not block or text.endswith(b"\n"):  # processes that it started may keep the pipe open
                break
        os.close(reads)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # with what it left running
        os.waitpid(pid, 0)
        return json.loads(text) if text.endswith(b"\n") else None


class Chosen:
    """A pytest plugin that keeps the chosen tests, and notes which failed."""

    def __init__(self, selection: Selection) -> None:
        self.files = selection.files
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the chosen ones, in the order of the files."""
        items[:] = [item for item in items if _names(item.nodeid)[1] in self.files[_names(item.nodeid)[0]]]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first is what counts."""
        if report.failed and not self.failed:
            self.failed.extend(_names(report.nodeid))


def _names(nodeid: str) -> tuple[str, str]:
    file, _, rest = nodeid.partition("::")
    return file, rest.partition("[")[0]


def _pytest(folder: Path, files: list[str], plugin: object) -> int:
    arguments = ["-q", "-x", "-n0", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning", f"--basetemp={folder}/tmp"]
    if isinstance(plugin, Recorder):
        arguments.remove("-x")
    return int(pytest.main([*arguments, *files], plugins=[plugin]))


def _become(root: Path, action: Callable[[], Any], writes: int, write_bytecode: bool) -> None:
    """Run an action in the copy, answer, and end; never returns."""
    try:
        os.setsid()
        os.chdir(root)
        for kind, limit in ((resource.RLIMIT_DATA, DATA_BYTES), (resource.RLIMIT_FSIZE, FILE_BYTES)):
            resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))
        sys.path[:0] = [str(root / part) for part in ("tests/harness", "", "plugins", "tasks")]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:4])  # for the commands that tests start
        sys.dont_write_bytecode = not write_bytecode
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]  # the copy's are imported
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)  # for our own mistakes
        for descriptor in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        answer = json.dumps(action(), default=list) + "\n"
        with open(writes, "w") as file:
            file.write(answer)
    except BaseException:
        traceback.print_exc(limit=-2)
    finally:
        os._exit(0)
