"""A file that has to be downloaded: where it is, and what shows that it is the right one."""

from __future__ import annotations

__all__ = ["Expected", "RemoteFile", "digests", "fetching_error"]

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from s2s import DataError
from s2s.data import open_bytes

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 1 << 20


class Expected(NamedTuple):
    """What is known of a file's contents before it is downloaded."""

    sha256: str = ""
    md5: str = ""
    n_bytes: int | None = None
    unpacked_sha256: str = ""
    """Of what a compressed file holds, where that alone is known"""

    @property
    def is_hashed(self) -> bool:
        """Whether a hash decides that a file is the right one."""
        return bool(self.sha256 or self.md5 or self.unpacked_sha256)

    def fault(self, path: Path) -> str:
        """How the file at a path differs; empty: it does not."""
        n_bytes, sha256, md5 = digests(path)
        if self.n_bytes is not None and n_bytes != self.n_bytes:
            return f"has {n_bytes:,} bytes, expected {self.n_bytes:,}"
        if self.sha256 and sha256 != self.sha256:
            return f"has the sha256 {sha256}, expected {self.sha256}"
        if self.md5 and md5 != self.md5:
            return f"has the md5 {md5}, expected {self.md5}"
        return self._unpacked_fault(path) if self.unpacked_sha256 else ""

    def _unpacked_fault(self, path: Path) -> str:
        try:
            with open_bytes(path, text=False) as file:
                _, sha256, _ = _digests(file)
        except DataError as error:
            return f"cannot be unpacked ({error})"
        wanted = self.unpacked_sha256
        return "" if sha256 == wanted else f"unpacked has the sha256 {sha256}, expected {wanted}"


UNKNOWN = Expected()


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file at one or several addresses, the first of which is the usual one."""

    urls: tuple[str, ...]
    expected: Expected = UNKNOWN
    if_gone: str = ""
    """What to use where all addresses are dead, in words"""

    @property
    def name(self) -> str:
        """The end of its first address."""
        return PurePosixPath(unquote(urlsplit(self.urls[0]).path)).name

    @property
    def identity(self) -> str:
        """What its contents are known by: a hash, or without one its first address."""
        expected = self.expected
        return expected.sha256 or expected.md5 or expected.unpacked_sha256 or self.urls[0]

    @property
    def key(self) -> str:
        """Its name in the cache, which another file of the same name does not have."""
        digest = hashlib.sha256(self.identity.encode()).hexdigest()[:16]
        return f"{digest}-{self.name}"


def digests(path: Path) -> tuple[int, str, str]:
    """Bytes, sha256 and md5 of a file."""
    with path.open("rb") as file:
        return _digests(file)


def _digests(file: IO[bytes]) -> tuple[int, str, str]:
    sha256, md5, n_bytes = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    while chunk := file.read(CHUNK):
        sha256.update(chunk)
        md5.update(chunk)
        n_bytes += len(chunk)
    return n_bytes, sha256.hexdigest(), md5.hexdigest()


def fetching_error(file: RemoteFile, reasons: list[str]) -> DataError:
    """The error for a file that no address has delivered, with the reason of each."""
    instead = f". {file.if_gone}" if file.if_gone else ""
    return DataError(f"{file.name} cannot be downloaded: {'; '.join(reasons)}{instead}")
