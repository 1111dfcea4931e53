"""Test files run by pytest in this process: chosen tests until one fails, or all of them, recorded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from mutation.blocks import note_blocks
from mutation.calls import Recorder
from mutation.child import is_under

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set
    from pathlib import Path

RECORDED = ("s2s", "plugins", "tasks")
"""Folders of the code whose blocks are noted"""
PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
IMPORT = ("import", "")
"""What fails where a test file cannot be imported"""


class Recorded(NamedTuple):
    """What a test file does."""

    code: int
    """pytest's"""
    tests: list[tuple[str, float, list[str]]]
    """Name, seconds, blocks"""
    modules: list[str]
    """Imported modules that are not ours"""


def first_failure(
    folder: Path, groups: Sequence[Mapping[str, Set[str] | None]], without: Set[tuple[str, str]]
) -> tuple[str, str] | None:
    """File and name of the first test that fails.

    Groups of files are run in turn, of each file the tests that it is mapped to (None: all), but none of `without`.
    """
    for group in groups:
        plugin = _Chosen(group, without)
        code = _pytest(folder, ["-x", *group], plugin)
        if plugin.failed:
            return plugin.failed[0], plugin.failed[1]
        if code not in PASSED:
            return IMPORT
    return None


def record(folder: Path, root: Path, name: str) -> Recorded:
    """Run all tests of a file, in a process whose s2s is not yet imported."""
    recorder = Recorder()
    note_blocks(root, RECORDED, recorder.called.add)
    code = _pytest(folder, [name], recorder)
    modules = [name for name, module in list(sys.modules.items()) if not is_under(root, module)]
    return Recorded(code, [(t.name, t.seconds, sorted(t.calls)) for t in recorder.tests()], modules)


class _Chosen:
    """A pytest plugin that keeps the chosen tests, and notes which failed."""

    def __init__(self, files: Mapping[str, Set[str] | None], without: Set[tuple[str, str]]) -> None:
        self.files, self.without = files, without
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the chosen ones, in the order of the files."""
        items[:] = [item for item in items if self._is_chosen(*_names(item.nodeid))]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first is what counts."""
        if report.failed and not self.failed:
            self.failed.extend(_names(report.nodeid))

    def _is_chosen(self, file: str, test: str) -> bool:
        chosen = self.files[file]
        return (chosen is None or test in chosen) and (file, test) not in self.without


def _names(nodeid: str) -> tuple[str, str]:
    file, _, rest = nodeid.partition("::")
    return file, rest.partition("[")[0]


def _pytest(folder: Path, arguments: Sequence[str], plugin: object) -> int:
    options = ["-q", "-n0", "-p", "no:cacheprovider", "--hypothesis-seed=0", f"--basetemp={folder}/tmp"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, *arguments], plugins=[plugin]))
