"""Files that survive a crash: written beside their place, synced, renamed into it."""

from __future__ import annotations

__all__ = ["NO_LOCKS", "digest", "follow", "point", "sync", "write_file", "write_new"]

import errno
import hashlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems without locks, such as some that are shared by machines, answer to flock"""


def write_file(path: Path, data: str | bytes) -> None:
    """Replace `path` in one step: readers and crashes see the old contents or the new, never a mixture."""
    temp = path.with_name(f".{path.name}.tmp")
    write_new(temp, data)
    os.replace(temp, path)  # noqa: PTH105  one module for all calls whose order matters
    sync(path.parent)


def write_new(path: Path, data: str | bytes) -> None:
    """Write and sync a file at a place where nobody looks yet."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Wait until a file's contents, or a directory's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def point(link: Path, target: Path) -> None:
    """Let `link` name `target` from now on; a text file that holds the path where symlinks are impossible."""
    relative = os.path.relpath(target, link.parent)
    temp = link.with_name(f".{link.name}.tmp")
    temp.unlink(missing_ok=True)
    try:
        os.symlink(relative, temp)  # noqa: PTH211
    except (OSError, NotImplementedError):
        write_file(link, relative + "\n")
        return
    os.replace(temp, link)  # noqa: PTH105
    sync(link.parent)


def follow(link: Path) -> Path | None:
    """What `point` made `link` name, whether it exists or not; None where there is no such link."""
    if link.is_symlink():
        return link.parent / link.readlink()
    if link.is_file():
        return link.parent / link.read_text().strip()
    return None
