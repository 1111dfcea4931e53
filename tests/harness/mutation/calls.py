"""Which tests call which functions of the code, recorded once for each test file and kept."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import CodeType, FrameType


class Calls(NamedTuple):
    """A test function, with all of its parameters."""

    name: str
    seconds: float
    calls: frozenset[str]
    """module:qualified name"""


class Recorder:
    """A pytest plugin that notes what each test calls, in any thread; not in other processes."""

    def __init__(self, root: Path) -> None:
        self.prefix = f"{root}/"
        self.called: set[CodeType] = set()
        self.of_fixtures: dict[str, set[CodeType]] = {}
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, set[CodeType]] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note the calls of a test and of the fixtures that it shares with others."""
        self.called, began = set(), time.monotonic()
        threading.settrace(self._note)
        sys.settrace(self._note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            name = getattr(item, "originalname", None) or item.name
            shared = (self.of_fixtures.get(fixture, set()) for fixture in getattr(item, "fixturenames", ()))
            self.calls.setdefault(name, set()).update(self.called, *shared)
            self.seconds[name] = self.seconds.get(name, 0) + time.monotonic() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """Keep the calls of a fixture that is made once for several tests."""
        if fixturedef.scope == "function":
            return (yield)
        before, self.called = self.called, set()
        try:
            return (yield)
        finally:
            self.of_fixtures[fixturedef.argname] = self.called
            self.called = before | self.called

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails without any mutant shows nothing."""
        if report.failed:
            self.failed.add(report.nodeid.rpartition("::")[2].partition("[")[0])

    def tests(self) -> list[Calls]:
        """Those that passed."""
        names = [name for name in self.calls if name not in self.failed]
        return [Calls(n, self.seconds[n], frozenset(map(self._name, self.calls[n]))) for n in names]

    def _note(self, frame: FrameType, event: str, arg: object) -> None:
        if frame.f_code.co_filename.startswith(self.prefix):
            self.called.add(frame.f_code)

    def _name(self, code: CodeType) -> str:
        return f"{code.co_filename.removeprefix(self.prefix)}:{code.co_qualname.partition('.<locals>.<')[0]}"


class CallMap:
    """The tests of each file, kept in a file of JSON as long as the test file is the same."""

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

    def set(self, file: Path, name: str, tests: list[Calls]) -> None:
        """Keep them."""
        names = sorted(frozenset().union(*(test.calls for test in tests)))
        index = {name: i for i, name in enumerate(names)}
        rows = [[t.name, round(t.seconds, 3), sorted(index[c] for c in t.calls)] for t in tests]
        self.known[name] = {"digest": _digest(file), "names": names, "tests": rows}
        self.path.write_text(json.dumps(self.known))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
