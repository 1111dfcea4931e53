"""Distributions that a test installs into a folder on its search path."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
from dataclasses import dataclass
from s2s import Choice, hookimpl

@dataclass(kw_only=True)
class ToyConfig(Choice):
    size: int = 1
    '''Size.'''

"""
GOOD = HEAD + "@hookimpl\ndef s2s_register(registry):\n    registry.arch({name!r}, ToyConfig, dict)\n"
"""A plugin with one architecture"""

counter = itertools.count()


def install(folder: Path, source: str, *, point: str, package: str = "") -> str:
    """A module, its metadata and its entry point; gives the module's name, which no other test uses."""
    module, package = f"s2s_made_{next(counter)}", package or f"{point}-dist"
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{package.replace('-', '_')}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(f"[s2s]\n{point} = {module}\n")
    return module
