"""Whether files are still what they were: by size and time, and where these differ, by their contents."""

from __future__ import annotations

__all__ = ["Stamp", "is_unchanged", "is_untouched", "stamp"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.data.lines import open_bytes
from s2s.io.atomic import sha256

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Stamp:
    """What a file was when it was read."""

    size: int
    mtime_ns: int
    sha256: str


def stamp(path: Path) -> Stamp:
    """Read the file once; what is wrong with it is said as its reader would."""
    with open_bytes(path):
        before = path.stat()
        return Stamp(before.st_size, before.st_mtime_ns, sha256(path))


def is_untouched(path: Path, said: Stamp) -> bool:
    """Whether size and time are as they were, which costs nothing."""
    now = path.stat()
    return (now.st_size, now.st_mtime_ns) == (said.size, said.mtime_ns)


def is_unchanged(path: Path, said: Stamp | None) -> bool:
    """Whether the contents are as they were, if they were known; only a file that was touched is read."""
    if said is None or not path.is_file() or path.stat().st_size != said.size:
        return False
    return is_untouched(path, said) or sha256(path) == said.sha256
