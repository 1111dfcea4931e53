"""Memory-mapped files whose blocks are compared with their checksums when they are first read.

A file of any size thus opens at once, and no damaged byte of it is used: disks and memory flip bits silently.
"""

from __future__ import annotations

__all__ = ["BlockChecksums", "CheckedMap", "checksum_file"]

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from s2s.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

BLOCK = 1 << 14
"""Bytes of a block; the first pair that a shuffled corpus reads from a block costs its check, 12 us"""
CHECKSUM = np.dtype("<u4")


def checksum_file(path: Path) -> Path:
    """The CRC-32 of each block of the file `path`, one after the other."""
    return path.with_name(f"{path.name}.crc")


class BlockChecksums:
    """CRC-32 of the blocks of what is appended."""

    def __init__(self) -> None:
        self.checksums: list[int] = []
        self.rest = b""

    def append(self, data: bytes) -> None:
        """Add more bytes."""
        data = self.rest + data
        whole = len(data) - len(data) % BLOCK
        self.checksums += [zlib.crc32(data[at : at + BLOCK]) for at in range(0, whole, BLOCK)]
        self.rest = data[whole:]

    def dump(self) -> bytes:
        """The contents of a `checksum_file`."""
        last = [zlib.crc32(self.rest)] if self.rest else []
        return np.array([*self.checksums, *last], CHECKSUM).tobytes()


class CheckedMap:
    """An array [n] in a file, read-only; raises DataError instead of returning values other than those written."""

    def __init__(self, path: Path, dtype: np.dtype[Any], n: int, remedy: str) -> None:
        """The file has n values, and a `checksum_file` beside it; `remedy` is what to do about a damaged one."""
        self.path, self.itemsize, self.remedy = path, dtype.itemsize, remedy
        self.checksums = np.fromfile(checksum_file(path), CHECKSUM)
        n_blocks = -(-n * dtype.itemsize // BLOCK)
        if len(self.checksums) != n_blocks:
            raise self._damaged(f"{checksum_file(path).name} has {len(self.checksums)} checksums for {n_blocks} blocks")
        # A plain view: slicing a memmap object itself costs ten times as much. An empty file cannot be mapped.
        self.values: NDArray[Any] = np.asarray(np.memmap(path, dtype, "r", shape=(n,))) if n else np.empty(0, dtype)
        self.unread = bytearray(b"\1" * n_blocks)
        """1 for each block that has not been checked yet"""
        self.n_unread = n_blocks

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, begin: int, end: int) -> NDArray[Any]:
        """Values [end - begin]"""
        if self.n_unread and begin < end:
            first, last = begin * self.itemsize // BLOCK, (end * self.itemsize - 1) // BLOCK
            if 1 in self.unread[first : last + 1]:
                self._check(block for block in range(first, last + 1) if self.unread[block])
        return self.values[begin:end]

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Values [m] at indices [m]."""
        if self.n_unread:
            blocks = np.unique(indices * self.itemsize // BLOCK)
            self._check(blocks[np.frombuffer(self.unread, bool)[blocks]].tolist())
        return self.values[indices]

    def _check(self, blocks: Iterable[int]) -> None:
        data = self.values.view(np.uint8).data
        for block in blocks:
            begin = block * BLOCK
            if zlib.crc32(data[begin : begin + BLOCK]) != self.checksums[block]:
                raise self._damaged(
                    f"bytes {begin:,} to {min(begin + BLOCK, len(data)):,} are not as they were written"
                )
            self.unread[block] = 0
            self.n_unread -= 1

    def _damaged(self, what: str) -> DataError:
        return DataError(f"{self.path} is damaged, by the disk or by memory: {what}; {self.remedy}")
