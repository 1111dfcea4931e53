"""Files that survive a crash: written under a temporary name, synced, renamed into place."""

from __future__ import annotations

__all__ = ["fsync", "read_link", "sha256", "temporary", "write_file", "write_link", "write_synced"]

import hashlib
import os
from typing import TYPE_CHECKING

from s2s.io.own_file import open_own

if TYPE_CHECKING:
    from pathlib import Path


def write_file(path: Path, data: str | bytes) -> None:
    """Replace `path` in one step: after a crash it has the old contents or the new, never a mixture."""
    temp = temporary(path)
    write_synced(temp, data)
    os.replace(temp, path)  # noqa: PTH105  one module for all calls whose order matters
    fsync(path.parent)


def temporary(path: Path) -> Path:
    """The name under which `write_file` writes a file."""
    return path.with_name(f".{path.name}.tmp")


def write_synced(path: Path, data: str | bytes) -> None:
    """Write and sync a file under a name that no reader opens yet; not atomic."""
    with open_own(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
        file.flush()
        os.fsync(file.fileno())


def fsync(path: Path) -> None:
    """Wait until the contents of a file, or the entries of a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_link(link: Path, target: Path) -> None:
    """Make `link` a symlink to `target`; where symlinks are impossible, a text file that holds the path."""
    relative = os.path.relpath(target, link.parent)
    temp = link.with_name(f".{link.name}.tmp")
    temp.unlink(missing_ok=True)
    try:
        os.symlink(relative, temp)  # noqa: PTH211
    except (OSError, NotImplementedError):
        write_file(link, relative + "\n")
        return
    os.replace(temp, link)  # noqa: PTH105
    fsync(link.parent)


def read_link(link: Path) -> Path | None:
    """The target that `write_link` gave `link`, whether it exists or not; None if there is no such link."""
    if link.is_symlink():
        return link.parent / link.readlink()
    if link.is_file():
        return link.parent / link.read_text().strip()
    return None
