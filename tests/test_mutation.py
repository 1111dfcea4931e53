"""Mutants are what they are said to be, and a test that sees one kills it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from folders import ROOT
from mutation.calls import CallMap, Calls
from mutation.mutants import mutants
from mutation.sample import candidates, harmless
from mutation.selection import BUDGET, nearest, select_tests

if TYPE_CHECKING:
    from pathlib import Path

LIST = ROOT / "tests" / "harness" / "mutation" / "harmless.tsv"
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


def test_a_mutant_names_the_function_that_it_is_in() -> None:
    source = """
LIMIT = 3
class A:
    size = 4
    def f(self, x=5):
        def g(): return lambda: x + 1
        return [g() for _ in range(6)]
"""
    assert {(m.before, m.function) for m in mutants(source) if m.before.isdigit()} == {
        ("3", ""),
        ("4", ""),
        ("5", "A.f"),
        ("1", "A.f.<locals>.g"),
        ("6", "A.f"),
    }


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


def test_the_tests_of_a_mutant_are_those_that_call_what_it_changes() -> None:
    tests = {
        "tests/s2s/io/test_lock.py": [
            Calls("test_process", 3.0, frozenset()),
            Calls("test_hold", 0.1, frozenset()),
        ],
        "tests/s2s/io/test_other.py": [Calls("test_other", 0.1, frozenset({"s2s/io/lock.py:Lock.hold"}))],
        "tests/plugins/test_far.py": [
            Calls("test_slow", BUDGET, frozenset({"s2s/io/lock.py:Lock.hold"})),
            Calls("test_fast", 2.0, frozenset({"s2s/io/lock.py:Lock.hold"})),
            Calls("test_free", 0.1, frozenset({"s2s/io/lock.py:Lock.free"})),
        ],
    }
    named = {"tests/s2s/io/test_lock.py": {"test_process", "test_hold"}}
    found = select_tests(tests, "s2s/io/lock.py", "Lock.hold")
    assert list(found.files.items()) == [
        ("tests/s2s/io/test_other.py", {"test_other"}),
        *named.items(),
        ("tests/plugins/test_far.py", {"test_fast"}),
    ]
    assert found.seconds == pytest.approx(5.2)
    assert select_tests(tests, "s2s/io/lock.py", "Lock.free").files == {
        **named,
        "tests/plugins/test_far.py": {"test_free"},
    }
    without = {("tests/s2s/io/test_other.py", "test_other")}
    assert "tests/s2s/io/test_other.py" not in select_tests(tests, "s2s/io/lock.py", "Lock.hold", without).files
    assert not select_tests(tests, "s2s/model.py", "").files


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
        Calls("test_a", 0.25, frozenset({"s2s/x.py:f", "s2s/y.py:A.g"})),
        Calls("test_b", 1.0, frozenset()),
    ]
    CallMap(kept).set(file, "tests/test_x.py", tests)
    assert CallMap(kept).get(file, "tests/test_x.py") == tests
    file.write_text("def test_a(): 1 / 0")
    assert CallMap(kept).get(file, "tests/test_x.py") is None


def test_each_harmless_mutant_has_a_reason() -> None:
    rows = [line.split("\t") for line in LIST.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["module", "line", "before", "after", "number", "reason"]
    assert [row for row in rows if len(row) != 6 or not all(row)] == []
    assert len(harmless(LIST)) == len(rows) - 1


def test_a_harmless_mutant_is_known_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(SOURCE)
    found = candidates(tmp_path, [], 1, "x.py:10")
    table = tmp_path / "harmless.tsv"
    table.write_text("a header\n" + "\t".join([*found[0].key, "because"]) + "\n", encoding="utf-8")
    assert [c.key in harmless(table) for c in found] == [True, False, False]
