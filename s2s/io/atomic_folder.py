"""Folders that survive a crash: built under a temporary name, synced, renamed into place."""

from __future__ import annotations

__all__ = ["new_folder", "remove_remnant"]

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from s2s.errors import DataError
from s2s.io.atomic import fsync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARK = "made-by-s2s"
"""A file in a temporary folder, by which it is known as ours"""


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """An empty folder to fill; when the block ends without an error, it replaces `target`.

    It stands in .NAME.tmp beside `target`, which is removed in the end, or next time after a crash; raises DataError if
    s2s did not make that one. A crash between the two renames leaves no `target`. A process that has mapped the old
    folder's files keeps them.
    """
    place = _place(target)
    remove_remnant(target)
    try:
        place.mkdir(parents=True)  # refuses a link
    except FileExistsError:
        raise DataError(f"{place} is in the way, and s2s did not make it; rename it, or give another folder") from None
    (place / MARK).touch()
    new = place / "new"
    new.mkdir()
    try:
        yield new
        for path in sorted(new.rglob("*")):
            fsync(path)
        fsync(new)
        if target.exists():
            os.rename(target, place / "old")  # noqa: PTH104  beside os.fsync, whose order with it matters
        os.rename(new, target)  # noqa: PTH104
        fsync(target.parent)
    finally:
        _remove(place)


def remove_remnant(target: Path) -> None:
    """Remove what a process that was killed in `new_folder` has left, and nothing else."""
    place = _place(target)
    if place.is_dir() and not place.is_symlink() and ((place / MARK).is_file() or not any(place.iterdir())):
        _remove(place)


def _remove(place: Path) -> None:
    """Remove a temporary folder as far as possible; its mark goes last, since it shows whose the rest is."""
    for path in place.iterdir():
        if path.name != MARK:
            shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(place, ignore_errors=True)


def _place(target: Path) -> Path:
    return target.with_name(f".{target.name}.tmp")
