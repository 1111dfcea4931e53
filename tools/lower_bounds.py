"""The oldest versions that pyproject.toml allows, as pip's constraints: `python tools/lower_bounds.py > FILE`."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
TOOLS = ("ruff", "mypy")
"""Whose old versions would report other things; what the tests run with is old enough as it is pinned"""


def lower_bounds(text: str) -> list[str]:
    """`name==version` of each dependency that has a lower bound, also of the extras."""
    project = tomllib.loads(text)["project"]
    lists = (project["dependencies"], *project["optional-dependencies"].values())
    bounds = (re.match(r"([\w.-]+)(?:\[.*?\])?>=([\w.]+)", one) for one in dict.fromkeys(itertools.chain(*lists)))
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound and bound[1] not in TOOLS]


if __name__ == "__main__":
    print("\n".join(lower_bounds(PROJECT.read_text(encoding="utf-8"))))
