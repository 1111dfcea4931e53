"""Whether a file has changed or is damaged."""

from __future__ import annotations

__all__ = ["FileStamp"]

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from s2s.data.text import open_bytes
from s2s.io.atomic import sha256

if TYPE_CHECKING:
    from pathlib import Path


ALWAYS_READ = 1 << 30
"""Bytes up to which a file is read when it is checked for damage (2 s); a larger corpus is checked as it is read"""
READ_WHOLE = 1 << 28
"""Bytes up to which an input is read at every start (0.6 s)"""
N_BLOCKS, BLOCK = 64, 1 << 20
"""Number and bytes of the blocks that are read of a larger one (0.6 s, on a disk that spins)"""


@dataclass(frozen=True)
class FileStamp:
    """Size, times and hashes of a file when it was read.

    The change time of its inode, unlike the modification time, is kept by no program that writes other contents
    (`cp -p`, `rsync -t`). 0: not recorded, as in earlier versions, so that the file is read.
    """

    size: int
    mtime_ns: int
    sha256: str
    ctime_ns: int = 0
    samples: str = ""
    """Hash of the blocks of a file of more than READ_WHOLE; empty of a smaller one"""

    @classmethod
    def read(cls, path: Path) -> FileStamp:
        """Read and hash the file; raises DataError if it cannot be read."""
        with open_bytes(path, text=False):
            before = path.stat()
            times = before.st_mtime_ns, before.st_ctime_ns
            return cls(before.st_size, times[0], sha256(path), times[1], _samples(path))

    def renewed(self, path: Path) -> FileStamp:
        """The stamp with the times of a file that has these contents."""
        if self.has_time(path):
            return self
        now = path.stat()
        return replace(self, mtime_ns=now.st_mtime_ns, ctime_ns=now.st_ctime_ns, samples=_samples(path))

    def has_time(self, path: Path) -> bool:
        """Whether size and times of a file are these; it is not read."""
        now = path.stat()
        return (now.st_size, now.st_mtime_ns, now.st_ctime_ns) == (self.size, self.mtime_ns, self.ctime_ns)

    def has_contents(self, path: Path) -> bool:
        """Whether these are the contents of a file, which is read only if one of its times has changed."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        return self.has_time(path) or sha256(path) == self.sha256

    def is_current(self, path: Path) -> bool:
        """`has_contents`, but a file whose times are the same is read, too: all of it or, of a large one, some blocks.

        A clock that was set back, or a file system of coarse times, gives other contents the same times.
        """
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        if self.samples and self.has_time(path):
            return _samples(path) == self.samples
        return sha256(path) == self.sha256

    def is_intact(self, path: Path) -> bool:
        """Whether a file is as it was written, unless edited by hand; its time proves nothing if a disk damages it."""
        if not self.has_contents(path):
            return False
        return self.size > ALWAYS_READ or sha256(path) == self.sha256


def _samples(path: Path) -> str:
    """Hash of N_BLOCKS blocks at equal distances, the first and the last among them; empty for a small file."""
    size = path.stat().st_size
    if size <= READ_WHOLE:
        return ""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for number in range(N_BLOCKS):
            file.seek((size - BLOCK) * number // (N_BLOCKS - 1))
            digest.update(file.read(BLOCK))
    return digest.hexdigest()
