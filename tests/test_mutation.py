"""Mutants are what they are said to be, and a test that sees one kills it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutation.mutants import mutants
from mutation.trials import tests_of as files_of

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


@pytest.mark.parametrize(
    ("module", "tests"),
    [
        ("s2s/io/json_files.py", ["tests/s2s/io/test_json_files.py"]),
        ("s2s/data/batching.py", ["tests/s2s/data/test_batching.py"]),
    ],
)
def test_the_tests_of_a_module_are_found(module: str, tests: list[str]) -> None:
    root = Path(__file__).parents[1]
    assert set(tests) <= {str(file.relative_to(root)) for file in files_of(root, module)}
