"""Mutants are what they claim to be, and a test that detects one kills it."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from harness.folders import ROOT
from mutation.__main__ import wilson
from mutation.blocks import NOTE, noting
from mutation.calls import CallMap, Calls
from mutation.child import run_in_child
from mutation.mutants import mutants
from mutation.sample import candidates, equivalent
from mutation.selection import BUDGET, nearest, select_tests

LIST = ROOT / "tools" / "mutation" / "equivalent.tsv"
SOURCE = '''"""Words: 1 + 1."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    LIMIT = 3
def f(x: int = 4, *, deep: bool = False) -> int | None:
    """More words: 2 < 3."""
    if x < 2 and not deep:
        raise ValueError(f"x={x + 1} is too small")
    ä = x * 2 if deep else x // 2
    return ä - 1
'''


def test_every_computation_has_its_mutants_and_words_have_none() -> None:
    found = {(m.line, m.before, m.after) for m in mutants(SOURCE)}
    assert found == {
        (5, "4", "5"),
        (5, "False", "True"),
        (7, "x < 2 and not deep", "x < 2 or not deep"),
        (7, "x < 2", "x <= 2"),
        (7, "2", "3"),
        (7, "not deep", "deep"),
        (9, "x * 2 if deep else x // 2", "x // 2 if deep else x * 2"),
        (9, "x * 2", "x // 2"),
        (9, "x // 2", "x * 2"),
        (9, "2", "3"),
        (10, "return ä - 1", "return None"),
        (10, "ä - 1", "ä + 1"),
        (10, "1", "2"),
    }


def test_a_mutant_is_python_and_changes_its_line_alone() -> None:
    for mutant in mutants(SOURCE):
        ast.parse(mutant.source)
        before, after = SOURCE.splitlines(), mutant.source.splitlines()
        assert [i for i, (a, b) in enumerate(zip(before, after, strict=True), 1) if a != b] == [mutant.line]


NESTED = """
LIMIT = 3
class A:
    size = 4
    def f(self, x=5):
        def g(): return lambda: x + 1
        if x > 6:
            return 7
        return [g() for _ in range(8)]
"""


def test_a_mutant_names_the_block_that_it_is_in() -> None:
    assert {(m.before, m.block) for m in mutants(NESTED) if m.before.isdigit()} == {
        ("3", ""),
        ("4", ""),
        ("5", "A.f#0"),
        ("1", "A.f.<locals>.g#0"),
        ("6", "A.f#0"),
        ("7", "A.f#1"),
        ("8", "A.f#0"),
    }


def test_the_blocks_that_are_entered_are_noted_and_nothing_else_changes() -> None:
    noted: list[str] = []
    names: dict[str, object] = {NOTE: noted.append}
    exec(compile(noting(NESTED, "x.py"), "x.py", "exec"), names)
    a: Any = names["A"]
    assert a().f(7) == 7
    assert noted == ["x.py:A.f#0", "x.py:A.f#1"]
    assert a().f(2)[0]() == 3
    assert noted[2:] == ["x.py:A.f#0", *["x.py:A.f.<locals>.g#0"] * 8]


def test_every_module_can_note_its_blocks_on_the_lines_of_its_text() -> None:
    """A first statement and the note before it have one line; docstrings stay what they are."""
    for path in sorted((ROOT / "s2s").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        plain, tree = ast.parse(source), noting(source, path.name)
        compile(tree, path.name, "exec")
        lines = [{n.lineno for n in ast.walk(t) if isinstance(n, ast.stmt)} for t in (plain, tree)]
        documented = [
            [ast.get_docstring(n) for n in ast.walk(t) if isinstance(n, ast.FunctionDef)] for t in (plain, tree)
        ]
        assert lines[0] == lines[1]
        assert documented[0] == documented[1]


def test_a_sample_hardly_changes_with_the_code(tmp_path: Path) -> None:
    """Lines before the mutants, and another function, change neither their order nor their names."""
    (tmp_path / "s2s").mkdir()
    file = tmp_path / "s2s" / "x.py"
    file.write_text(SOURCE)
    before = [candidate.key for candidate in candidates(tmp_path, ["s2s"], seed=1)]
    file.write_text(SOURCE.replace("LIMIT = 3", "LIMIT = 3\n\n") + "\ndef g():\n    return 1 + 1\n")
    after = [candidate.key for candidate in candidates(tmp_path, ["s2s"], seed=1)]
    assert len(set(before)) == 14
    assert [key for key in after if key in before] == before
    assert [c.key for c in candidates(tmp_path, ["s2s"], seed=2)] != after


def test_the_tests_of_a_mutant_are_those_that_enter_its_block() -> None:
    """First in files named after the module; last what else these have, since it may run in another process."""
    hold = frozenset({"s2s/io/lock.py:Lock.hold#0"})
    tests = {
        "tests/s2s/io/test_lock.py": [Calls("test_process", 3.0, frozenset()), Calls("test_hold", 0.1, hold)],
        "tests/plugins/test_far.py": [
            Calls("test_slow", BUDGET, hold),
            Calls("test_fast", 2.0, hold),
            Calls("test_free", 0.1, frozenset({"s2s/io/lock.py:Lock.hold#1"})),
        ],
        "tests/s2s/io/test_other.py": [Calls("test_other", 4.0, hold)],
    }
    found = select_tests(tests, list(tests), "s2s/io/lock.py", "Lock.hold#0")
    assert [list(group.items()) for group in found.groups] == [
        [("tests/s2s/io/test_lock.py", {"test_hold"})],
        [("tests/s2s/io/test_other.py", {"test_other"}), ("tests/plugins/test_far.py", {"test_fast"})],
        [("tests/s2s/io/test_lock.py", {"test_process"})],
    ]
    assert found.seconds == pytest.approx(9.1)
    assert select_tests(tests, [], "s2s/io/lock.py", "Lock.hold#1").groups[0] == {
        "tests/plugins/test_far.py": {"test_free"}
    }
    whole = select_tests({}, [*tests, "tests/s2s/io/test_lock_crashes.py"], "s2s/io/lock.py", "")
    assert whole.groups == [{"tests/s2s/io/test_lock.py": None, "tests/s2s/io/test_lock_crashes.py": None}]
    assert not select_tests(tests, list(tests), "s2s/model.py", "").groups


def test_tests_near_a_module_are_tried_first() -> None:
    texts = {
        "tests/plugins/test_far.py": "from s2s.io.lock import Lock",
        "tests/plugins/test_farther.py": "from s2s.io import Lock; Lock(); Lock()",
        "tests/plugins/test_other.py": "from s2s.io.locked import Locked",
        "tests/s2s/io/test_atomic.py": "",
        "tests/s2s/io/test_lock.py": "",
        "tests/s2s/io/test_lock_crashes.py": "",
    }
    assert nearest(texts, "s2s/io/lock.py", ["Lock"]) == [
        "tests/s2s/io/test_lock.py",
        "tests/s2s/io/test_lock_crashes.py",
        "tests/s2s/io/test_atomic.py",
        "tests/plugins/test_farther.py",
        "tests/plugins/test_far.py",
    ]


def test_what_tests_call_is_kept_as_long_as_their_file_is_the_same(tmp_path: Path) -> None:
    file, kept = tmp_path / "test_x.py", tmp_path / "calls.json"
    file.write_text("def test_a(): pass")
    tests = [
        Calls("test_a", 0.25, frozenset({"s2s/x.py:f#0", "s2s/y.py:A.g#1"})),
        Calls("test_b", 1.0, frozenset()),
    ]
    CallMap(kept).set(file, "tests/test_x.py", tests, ["json"])
    assert CallMap(kept).modules() == {"json"}
    assert CallMap(kept).get(file, "tests/test_x.py") == tests
    file.write_text("def test_a(): 1 / 0")
    assert CallMap(kept).get(file, "tests/test_x.py") is None


def test_a_child_answers_crashes_hangs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A death and a loop are no answer; what it started ends with it."""
    started = tmp_path / "started"

    def start() -> int:
        process = subprocess.Popen(["sleep", "1000"])
        started.write_text(str(process.pid))
        return 5

    assert run_in_child(tmp_path, start, 10) == 5
    deadline = time.monotonic() + 60  # on a busy machine, a process that was killed takes a while to end
    while is_alive(int(started.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert run_in_child(tmp_path, lambda: os.kill(os.getpid(), signal.SIGKILL), 10) is None
    assert run_in_child(tmp_path, loop, 1) is None


def loop() -> None:
    while True:
        pass


def is_alive(pid: int) -> bool:
    """Whether a process runs, or could."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_sample_says_how_little_it_says() -> None:
    """Wilson's interval: its ends are the shares from which k of n is 1.96 standard deviations away."""
    for k, n in ((26, 30), (300, 300), (0, 9)):
        for end in wilson(k, n):
            assert abs(end - k / n) == pytest.approx(1.96 * (end * (1 - end) / n) ** 0.5, abs=1e-6)


def test_each_equivalent_mutant_is_a_mutant_and_has_a_reason() -> None:
    rows = [line.split("\t") for line in LIST.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["module", "line", "before", "after", "number", "reason"]
    assert [row for row in rows if len(row) != 6 or not all(row)] == []
    assert len(equivalent(LIST)) == len(rows) - 1
    known = {candidate.key for row in rows[1:] for candidate in candidates(ROOT, [], 1, row[0])}
    assert [key for key in equivalent(LIST) if key not in known] == [], "the code has changed"


def test_an_equivalent_mutant_is_known_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(SOURCE)
    found = candidates(tmp_path, [], 1, "x.py:10")
    table = tmp_path / "equivalent.tsv"
    table.write_text("a header\n" + "\t".join([*found[0].key, "because"]) + "\n", encoding="utf-8")
    assert [c.key in equivalent(table) for c in found] == [True, False, False]
