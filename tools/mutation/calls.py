"""Which tests enter which blocks of the code, recorded once for each test file and kept."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class Calls(NamedTuple):
    """A test function, with all of its parameters."""

    name: str
    seconds: float
    """Of processor time"""
    calls: frozenset[str]
    """module:block"""


class Recorder:
    """A pytest plugin that knows which blocks each test enters, in any thread; not in other processes.

    `called` is where the code notes them.
    """

    def __init__(self) -> None:
        self.called = set[str]()
        self.of_fixtures: dict[str, set[str]] = {}
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, set[str]] = {}
        self.failed = set[str]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note the blocks of a test and of the fixtures that it shares with others."""
        self.called.clear()
        began = _processor_seconds()
        try:
            return (yield)
        finally:
            name = getattr(item, "originalname", None) or item.name
            shared = (self.of_fixtures.get(fixture, set()) for fixture in getattr(item, "fixturenames", ()))
            self.calls.setdefault(name, set()).update(self.called, *shared)
            self.seconds[name] = self.seconds.get(name, 0) + _processor_seconds() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """Keep the blocks of a fixture that is made once for several tests."""
        if fixturedef.scope == "function":
            return (yield)
        before = frozenset(self.called)
        self.called.clear()
        try:
            return (yield)
        finally:
            self.of_fixtures[fixturedef.argname] = set(self.called)
            self.called |= before

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails without any mutant shows nothing."""
        if report.failed:
            self.failed.add(report.nodeid.rpartition("::")[2].partition("[")[0])

    def tests(self) -> list[Calls]:
        """Those that passed."""
        return [Calls(n, self.seconds[n], frozenset(self.calls[n])) for n in self.calls if n not in self.failed]


def _processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class CallMap:
    """The tests of each file, and the modules that they import, kept in a file of JSON.

    What was kept of a test file is valid as long as the file is the same.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, file: Path, name: str) -> list[Calls] | None:
        """The tests of a file, if they are known."""
        found = self.known.get(name)
        if found is None or found["digest"] != _digest(file):
            return None
        names = found["names"]
        return [Calls(t, seconds, frozenset(names[i] for i in calls)) for t, seconds, calls in found["tests"]]

    def set(self, file: Path, name: str, tests: list[Calls], modules: Iterable[str] = ()) -> None:
        """Keep them."""
        names = sorted(frozenset().union(*(test.calls for test in tests)))
        index = {name: i for i, name in enumerate(names)}
        rows = [[t.name, round(t.seconds, 3), sorted(index[c] for c in t.calls)] for t in tests]
        self.known[name] = {"digest": _digest(file), "names": names, "tests": rows}
        self.known[name]["modules"] = sorted(modules)
        self.path.write_text(json.dumps(self.known))

    def modules(self) -> frozenset[str]:
        """What any recorded test imports."""
        return frozenset(module for found in self.known.values() for module in found.get("modules", ()))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
