"""The tests that may detect a mutant, run in a copy of the tree that has it, in a child that has torch loaded."""

from __future__ import annotations

import compileall
import gc
import importlib
import os
import shutil
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import torch

from harness.folders import ROOT
from mutation.calls import CallMap, Calls
from mutation.child import LATE, run_in_child
from mutation.mutants import exported
from mutation.running import IMPORT, Recorded, first_failure, record
from mutation.selection import UNKNOWN, Selection, is_named_after, nearest, select_tests

if TYPE_CHECKING:
    from pathlib import Path

    from mutation.sample import Candidate

PARTS = (
    *("s2s", "plugins", "tasks", "configs", "examples", "tests", "tools", "docs", "benchmarks"),
    *("pyproject.toml", "README.md"),
)
PRELOADED = ("hypothesis", "omegaconf", "sentencepiece", "sacrebleu", "safetensors.torch", "rich.console", "nltk")
RECORDING_SECONDS = 900
"""Of processor time, for a test file"""


class Outcome(NamedTuple):
    """What came of a mutant."""

    fate: str
    """killed, hung (computed for too long, or ended without an answer), survived, no tests, or late: not known"""
    test: str = ""
    """Which saw it"""


class Trials:
    """A copy of the tree, in which one file at a time is another."""

    def __init__(self, folder: Path, calls: CallMap) -> None:
        self.folder, self.root, self.calls = folder, folder / "tree", calls
        self.reliable: dict[tuple[str, str], bool] = {}
        self.n_written = 0
        self.root.mkdir()
        for name in PARTS:
            source, copy = ROOT / name, self.root / name
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, copy)
        for part in ("s2s", "plugins", "tasks"):
            compileall.compile_dir(self.root / part, quiet=2)
        files = sorted(file for file in (self.root / "tests").rglob("test_*.py") if not file.stem.endswith("_fuzz"))
        self.texts = {str(file.relative_to(self.root)): file.read_text() for file in files}
        torch.set_num_threads(1)
        for name in PRELOADED:
            importlib.import_module(name)
        self._preload()

    def run(self, candidate: Candidate, n_recorded: int) -> Outcome:
        """Run the tests that enter the block of a mutant until one that passes without it fails.

        First those of all files that are recorded, and whole files named after the module; then, as long as it
        survives, files near it are recorded one by one, at most so many.
        """
        known = {name: tests for name in self.texts if (tests := self._known(name)) is not None}
        outcome = self._try(candidate, select_tests(known, list(self.texts), candidate.module, candidate.mutant.block))
        names = exported((self.root / candidate.module).read_text())
        near = [n for n in nearest(self.texts, candidate.module, names) if n not in known]
        for name in [n for n in near if not is_named_after(n, candidate.module)][:n_recorded]:
            if outcome.fate not in ("survived", "no tests"):
                break
            tests = {name: self._record(name)}
            selection = select_tests(tests, [], candidate.module, candidate.mutant.block)
            further = self._try(candidate, selection)
            outcome = outcome if further.fate == "no tests" else further
        return outcome

    def run_files(self, candidate: Candidate, files: list[str]) -> Outcome:
        """Run these test files until one of their tests that passes without the mutant fails."""
        return self._try(candidate, Selection([dict.fromkeys(files)], float(UNKNOWN * len(files))))

    def _try(self, candidate: Candidate, selection: Selection) -> Outcome:
        if not selection.groups:
            return Outcome("no tests")
        failed = self._first_failure(selection, candidate)
        if failed is None:
            return Outcome("survived")
        if failed == LATE:
            return Outcome("late")
        if failed == "hung":
            return Outcome("hung" if self._first_failure(selection) is None else "late")
        if failed not in self.reliable:
            alone = Selection([{failed[0]: {failed[1]}}] if failed != IMPORT else selection.groups, selection.seconds)
            self.reliable[failed] = self._first_failure(alone) is None
        return Outcome("killed", "::".join(failed)) if self.reliable[failed] else self._try(candidate, selection)

    def _first_failure(self, selection: Selection, candidate: Candidate | None = None) -> tuple[str, str] | str | None:
        """File and name of the first test that fails, with a mutant or without; "hung"; `LATE`; None if all pass."""
        without = {test for test, passes in self.reliable.items() if not passes}
        seconds = 20 + 5 * selection.seconds
        original = self._write(candidate) if candidate else None
        try:
            answer = run_in_child(self.root, lambda: [first_failure(self.folder, selection.groups, without)], seconds)
        finally:
            if candidate and original:
                self._restore(candidate, *original)
        if answer is None or answer == LATE:
            return answer or "hung"
        return None if answer[0] is None else (answer[0][0], answer[0][1])

    def _write(self, candidate: Candidate) -> tuple[str, int]:
        file = self.root / candidate.module
        original, time = file.read_text(), file.stat().st_mtime_ns
        file.write_text(candidate.mutant.source)
        self.n_written += 1  # bytecode is valid for a time: each mutant has one of its own
        os.utime(file, (self.n_written, self.n_written))
        return original, time

    def _restore(self, candidate: Candidate, original: str, time: int) -> None:
        file = self.root / candidate.module
        file.write_text(original)
        os.utime(file, ns=(time, time))

    def _known(self, name: str) -> list[Calls] | None:
        return self.calls.get(self.root / name, name)

    def _record(self, name: str) -> list[Calls]:
        answer = run_in_child(self.root, lambda: record(self.folder, self.root, name), RECORDING_SECONDS)
        if answer is None or answer == LATE:
            print(f"{name}: not recorded, {answer or 'hung'}", flush=True)
            return []
        recorded = Recorded(*answer)
        tests = [Calls(test, seconds, frozenset(calls)) for test, seconds, calls in recorded.tests]
        print(f"{name}: {len(tests)} tests, {sum(t.seconds for t in tests):.0f} s, pytest: {recorded.code}", flush=True)
        if recorded.code in (0, 1):
            self.calls.set(self.root / name, name, tests, recorded.modules)
            self._preload()
        return tests

    def _preload(self) -> None:
        """Import here what tests import, so that no child has to."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in sorted(self.calls.modules()):
                with suppress(Exception):
                    importlib.import_module(name)
        gc.freeze()  # pytest collects garbage more than once, in each child
