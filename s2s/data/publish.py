"""A folder that appears whole, in one step."""

from __future__ import annotations

__all__ = ["publish"]

import os
import shutil
from typing import TYPE_CHECKING

from s2s.io.atomic import fsync

if TYPE_CHECKING:
    from pathlib import Path


def publish(built: Path, place: Path) -> None:
    """Give a complete folder its name; an older one of that name makes way for it.

    Killed between the two renames it leaves no folder at all, which is then made again.
    """
    for path in sorted(built.rglob("*")):
        fsync(path)
    fsync(built)
    old = place.with_name(f".{place.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        os.rename(place, old)  # noqa: PTH104  beside os.fsync, whose order with it matters
    os.rename(built, place)  # noqa: PTH104
    fsync(place.parent)
    shutil.rmtree(old, ignore_errors=True)  # who has mapped its files keeps them until he is done
