"""Members of archives by their exact names: tar (.gz, .bz2, .xz, .zst), zip, and Debian's packages.

A member is copied as a stream to a name that we choose, so that no path of an archive is ever followed; links and
devices are refused, and so is what unpacks to more than a limit.
"""

from __future__ import annotations

__all__ = ["copy_members", "read_tree"]

import lzma
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, cast

from s2s import DataError
from s2s.data import open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

CHUNK = 1 << 20
MAX_BYTES = 1 << 36
"""Of a member, unpacked: 64 GiB; the largest of the catalogue has 4"""
MAX_RATIO = 1100
"""How many times its size an archive may unpack to: deflate reaches 1,032"""
MAX_MEMBERS = 2_000_000
AR_MAGIC, AR_HEADER = b"!<arch>\n", 60


def copy_members(archive: Path, members: Mapping[str, Path], *, optional: bool = False) -> None:
    """Copy members to paths; raises DataError for one that is there twice, or unless `optional` not at all."""
    missing = set(members)
    budget = _Budget(archive)
    for name, file in _files(archive):
        if name in members:
            if name not in missing:
                raise DataError(f"{archive}: has {name} twice")
            missing.remove(name)
            with members[name].open("wb") as copy:
                for chunk in _chunks(file, budget):
                    copy.write(chunk)
    if missing and not optional:
        raise DataError(f"{archive}: has no file {', '.join(sorted(missing))}")


def read_tree(archive: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Name and contents of every file whose name ends so, in the order of the archive."""
    budget = _Budget(archive)
    for name, file in _files(archive):
        if name.endswith(suffix):
            yield name, b"".join(_chunks(file, budget))


class _Budget:
    """How much an archive may still unpack to."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.n_left = min(MAX_BYTES, max(archive.stat().st_size, CHUNK) * MAX_RATIO)

    def spend(self, n_bytes: int) -> None:
        """Raises DataError where nothing is left."""
        self.n_left -= n_bytes
        if self.n_left < 0:
            raise DataError(f"{self.archive}: unpacks to more than an archive of its size should")


def _chunks(file: IO[bytes], budget: _Budget) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        budget.spend(len(chunk))
        yield chunk


def _files(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Every regular file with its name as the archive has it, without a leading ./"""
    with archive.open("rb") as raw:
        start = raw.read(len(AR_MAGIC))
    opened = _of_zip if start.startswith(b"PK") else _of_package if start == AR_MAGIC else _of_tar
    try:
        for n_members, (name, file) in enumerate(opened(archive), 1):
            if n_members > MAX_MEMBERS:
                raise DataError(f"{archive}: more than {MAX_MEMBERS:,} members")
            yield name.removeprefix("./"), file
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError) as error:
        what = str(error).strip() or type(error).__name__
        raise DataError(f"{archive}: the archive is damaged ({what})") from None


def _of_zip(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if info.flag_bits & 1:
                raise DataError(f"{archive}: {info.filename} is encrypted")
            if not info.is_dir():
                with opened.open(info) as file:
                    yield info.filename, file


def _of_tar(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with open_bytes(archive, text=False) as raw:
        yield from _members(raw)


def _members(raw: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(fileobj=raw, mode="r|") as opened:
        for info in opened:
            if info.isreg() and (file := opened.extractfile(info)) is not None:
                yield info.name, file


def _of_package(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The files of a .deb: an ar archive, one of whose members is data.tar with some compression."""
    with archive.open("rb") as raw:
        raw.seek(len(AR_MAGIC))
        while header := raw.read(AR_HEADER):
            name, size = header[:16].decode("ascii", "replace").strip().rstrip("/"), header[48:58].strip()
            if len(header) < AR_HEADER or header[58:] != b"`\n" or not size.isdigit():
                raise DataError(f"{archive}: the package is damaged")
            begin = raw.tell()
            if name.startswith("data.tar"):
                with _uncompressed(archive, raw, name, begin, int(size)) as data:
                    yield from _members(data)
                return
            raw.seek(begin + int(size) + int(size) % 2)
    raise DataError(f"{archive}: the package has no data.tar")


@contextmanager
def _uncompressed(archive: Path, raw: IO[bytes], name: str, begin: int, size: int) -> Iterator[IO[bytes]]:
    window = _Window(raw, begin, size)
    kind = name.rpartition(".")[2]
    if kind == "xz":
        with lzma.LZMAFile(cast("Any", window)) as data:
            yield cast("IO[bytes]", data)
    elif kind == "tar":
        yield cast("IO[bytes]", window)
    else:
        raise DataError(f"{archive}: {name} is not read; unpack it with dpkg-deb -x and name the folder")


class _Window:
    """Part of an open file, read like a file."""

    def __init__(self, raw: IO[bytes], begin: int, size: int) -> None:
        self.raw, self.n_left = raw, size
        raw.seek(begin)

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`."""
        data = self.raw.read(self.n_left if size < 0 else min(size, self.n_left))
        self.n_left -= len(data)
        return data

    def readable(self) -> bool:
        """As of a file."""
        return True

    def seekable(self) -> bool:
        """As of a pipe."""
        return False
