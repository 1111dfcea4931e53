"""Which tests are run on a mutant, and in which order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from mutation.calls import Calls

BUDGET = 60
"""Seconds that the tests of a mutant may take without it"""


FARTHEST = 6
"""Test files elsewhere that are run on a mutant"""


class Selection(NamedTuple):
    """Names of tests by their file."""

    files: dict[str, set[str]]
    seconds: float


def nearest(texts: dict[str, str], module: str, names: Sequence[str] = ()) -> list[str]:
    """Test files named after a module, those of the folder that mirrors its own, and some others, by how they use it.

    `texts` are those of all test files, `names` what the module offers.
    """
    path = Path(module).with_suffix("")
    dotted = ".".join(path.parts[path.parts[0] != "s2s" :]).removesuffix(".__init__")
    used = re.compile("|".join((rf"{re.escape(dotted)}\b", *(rf"\b{name}\b" for name in names))))
    uses = {file: len(used.findall(texts[file])) for file in texts}
    order = sorted(texts, key=lambda file: (_distance(file, module), -uses[file]))
    others = [file for file in order if _distance(file, module) == 2 and uses[file]]
    return [file for file in order if _distance(file, module) < 2] + others[:FARTHEST]


def select_tests(
    tests: dict[str, list[Calls]], module: str, function: str, without: Set[tuple[str, str]] = frozenset()
) -> Selection:
    """The tests that call a function, or, if it is "", anything of its module, and those in files named after it.

    The fastest come first. What goes beyond the budget is left out.
    """
    chosen = {
        file: [test for test in those if (file, test.name) not in without and _may_see(file, test, module, function)]
        for file, those in tests.items()
    }
    order = sorted(chosen, key=lambda file: sum(test.seconds for test in chosen[file]))
    files, seconds = dict[str, set[str]](), 0.0
    for file in order:
        for test in sorted(chosen[file], key=lambda test: test.seconds):
            if seconds + test.seconds <= BUDGET or not files:
                files.setdefault(file, set()).add(test.name)
                seconds += test.seconds
    return Selection(files, seconds)


def _may_see(file: str, test: Calls, module: str, function: str) -> bool:
    if f"{module}:{function}" in test.calls or (not function and any(c.startswith(f"{module}:") for c in test.calls)):
        return True
    return _distance(file, module) == 0


def _distance(file: str, module: str) -> int:
    """0: named after the module; 1: in the folder that mirrors the module's; 2: elsewhere."""
    test, path = Path(file), Path(module)
    if test.stem.startswith(f"test_{path.stem}") or (
        path.stem == "__init__" and test.stem == f"test_{path.parent.name}"
    ):
        return 0
    return 1 if test.parent == Path("tests") / path.parent else 2
