"""Files and folders that are there whole or not at all, whenever the process dies."""

from __future__ import annotations

__all__ = ["hash_file", "publish", "sync", "write_file"]

import hashlib
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_file(path: Path, data: bytes) -> None:
    """Replace `path` in one step, when its new contents are on the disk."""
    temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temp.write_bytes(data)
    sync(temp)
    temp.replace(path)
    sync(path.parent)


def publish(built: Path, place: Path) -> None:
    """Give a complete folder its name; an older one of that name makes way for it."""
    for path in sorted(built.rglob("*")):
        sync(path)
    sync(built)
    old = place.with_name(f".{place.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    built.rename(place)
    sync(place.parent)
    shutil.rmtree(old, ignore_errors=True)  # who has mapped its files keeps them until he is done


def sync(path: Path) -> None:
    """Wait until a file's contents, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hash_file(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
