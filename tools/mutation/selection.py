"""Which tests are run on a mutant, and in which order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mutation.calls import Calls

BUDGET = 40
"""Seconds of processor time that the tests of a mutant may take without it"""
UNKNOWN = 20
"""As many are reckoned for a file that is not recorded"""

FARTHEST = 6
"""Test files elsewhere that are run on a mutant"""


class Selection(NamedTuple):
    """Test files in groups that are run in turn; of each the names of its tests, or None for all of them."""

    groups: list[dict[str, set[str] | None]]
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


def select_tests(tests: dict[str, list[Calls]], files: Sequence[str], module: str, block: str) -> Selection:
    """The tests that enter a block, or, if it is "", anything of its module.

    Three groups: in files named after the module, whole where they are not recorded (are in `files` alone); in others,
    the nearest and fastest first; and what else is in files named after the module, since a test may start another
    process. What goes beyond the budget is left out.
    """
    own = [file for file in dict.fromkeys((*tests, *files)) if is_named_after(file, module)]
    enters = {file: [test for test in tests[file] if _enters(test, module, block)] for file in tests}
    near = {file: enters[file] for file in own if file in tests}
    others = [file for file in tests if file not in own]
    others.sort(key=lambda file: (_distance(file, module), sum(test.seconds for test in enters[file])))
    rest = {file: [test for test in tests[file] if test not in near[file]] for file in near}
    whole: dict[str, set[str] | None] = {file: None for file in own if file not in tests}
    seconds, groups = float(UNKNOWN * len(whole)), list[dict[str, set[str] | None]]()
    for group in (near, {file: enters[file] for file in others}, rest):
        groups.append({})
        for file, test in [(f, test) for f in group for test in sorted(group[f], key=lambda test: test.seconds)]:
            if seconds + test.seconds <= BUDGET or not seconds:
                groups[-1][file] = {*(groups[-1].get(file) or ()), test.name}
                seconds += test.seconds
    groups[0] |= whole
    return Selection([group for group in groups if group], seconds)


def _enters(test: Calls, module: str, block: str) -> bool:
    return f"{module}:{block}" in test.calls or (not block and any(c.startswith(f"{module}:") for c in test.calls))


def is_named_after(file: str, module: str) -> bool:
    """Whether a test file is called `test_x` or `test_x_…` for a module x, or for the package x."""
    path = Path(module)
    name = f"test_{path.parent.name if path.stem == '__init__' else path.stem}"
    return Path(file).stem == name or Path(file).stem.startswith(f"{name}_")


def _distance(file: str, module: str) -> int:
    """0: named after the module; 1: in the folder that mirrors the module's; 2: elsewhere."""
    if is_named_after(file, module):
        return 0
    return 1 if Path(file).parent == Path("tests") / Path(module).parent else 2
