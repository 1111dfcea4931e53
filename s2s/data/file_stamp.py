"""Whether a file has changed or is damaged."""

from __future__ import annotations

__all__ = ["FileStamp", "has_same_contents", "has_same_time", "is_intact", "stamp_file"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.data.text import open_bytes
from s2s.io.atomic import sha256

if TYPE_CHECKING:
    from pathlib import Path


ALWAYS_READ = 1 << 30
"""Bytes up to which a file is read when it is checked for damage (2 s); a larger corpus is checked as it is read"""


@dataclass(frozen=True)
class FileStamp:
    """Size, modification time and hash of a file when it was read."""

    size: int
    mtime_ns: int
    sha256: str


def stamp_file(path: Path) -> FileStamp:
    """Read and hash the file; raises the same DataError as its reader if it cannot be read."""
    with open_bytes(path):
        before = path.stat()
        return FileStamp(before.st_size, before.st_mtime_ns, sha256(path))


def has_same_time(path: Path, stamp: FileStamp) -> bool:
    """Whether size and modification time are those of the stamp; the file is not read."""
    now = path.stat()
    return (now.st_size, now.st_mtime_ns) == (stamp.size, stamp.mtime_ns)


def has_same_contents(path: Path, stamp: FileStamp | None) -> bool:
    """Whether the contents are those of the stamp; the file is read only if its time has changed."""
    if stamp is None or not path.is_file() or path.stat().st_size != stamp.size:
        return False
    return has_same_time(path, stamp) or sha256(path) == stamp.sha256


def is_intact(path: Path, stamp: FileStamp) -> bool:
    """Whether a file is as it was written, unless edited by hand; its time proves nothing if a disk damages it."""
    if not has_same_contents(path, stamp):
        return False
    return stamp.size > ALWAYS_READ or sha256(path) == stamp.sha256
