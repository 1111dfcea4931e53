"""Folders that survive a crash: built under a temporary name, synced, renamed into place."""

from __future__ import annotations

__all__ = ["replace_folder"]

import os
import shutil
from typing import TYPE_CHECKING

from s2s.io.atomic import fsync

if TYPE_CHECKING:
    from pathlib import Path


def replace_folder(built: Path, target: Path) -> None:
    """Rename the complete folder `built` to `target`, replacing an older one.

    A crash between the two renames leaves no `target`. A process that has mapped the old folder's files keeps them.
    """
    for path in sorted(built.rglob("*")):
        fsync(path)
    fsync(built)
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        os.rename(target, old)  # noqa: PTH104  beside os.fsync, whose order with it matters
    os.rename(built, target)  # noqa: PTH104
    fsync(target.parent)
    shutil.rmtree(old, ignore_errors=True)
