"""Whether a file has changed or is damaged."""

from __future__ import annotations

__all__ = ["FileStamp"]

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

    @classmethod
    def read(cls, path: Path) -> FileStamp:
        """Read and hash the file; raises DataError if it cannot be read."""
        with open_bytes(path, text=False):
            before = path.stat()
            return cls(before.st_size, before.st_mtime_ns, sha256(path))

    def has_time(self, path: Path) -> bool:
        """Whether size and modification time of a file are these; it is not read."""
        now = path.stat()
        return (now.st_size, now.st_mtime_ns) == (self.size, self.mtime_ns)

    def has_contents(self, path: Path) -> bool:
        """Whether these are the contents of a file, which is read only if its time has changed."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        return self.has_time(path) or sha256(path) == self.sha256

    def is_intact(self, path: Path) -> bool:
        """Whether a file is as it was written, unless edited by hand; its time proves nothing if a disk damages it."""
        if not self.has_contents(path):
            return False
        return self.size > ALWAYS_READ or sha256(path) == self.sha256
