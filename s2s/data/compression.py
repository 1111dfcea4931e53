"""Compressed files, known by their first bytes: gzip, bzip2, xz, Zstandard."""

from __future__ import annotations

__all__ = ["N_FIRST_BYTES", "decompressed", "without_suffix"]

import bz2
import gzip
import importlib
import lzma
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from s2s.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Compression(NamedTuple):
    """A way to compress files."""

    name: str
    first_bytes: bytes
    suffixes: tuple[str, ...]
    open: Callable[[IO[bytes]], Any]
    """The reader of a file, which raises EOFError where it is cut off"""


def _zstd() -> Any:
    """The module of Python 3.14, or its backport."""
    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        return importlib.import_module("backports.zstd")


COMPRESSIONS = (
    Compression("gzip", b"\x1f\x8b", (".gz",), lambda raw: gzip.GzipFile(fileobj=raw)),
    Compression("bzip2", b"BZh", (".bz2",), bz2.BZ2File),
    Compression("xz", b"\xfd7zXZ\0", (".xz",), lzma.LZMAFile),
    Compression("Zstandard", b"\x28\xb5\x2f\xfd", (".zst", ".zstd"), lambda raw: _zstd().ZstdFile(raw)),
)
BZIP2_BLOCKS = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
"""What follows `BZh` and a digit: a block, or the end; ordinary text may begin with the letters"""
N_FIRST_BYTES = 10


def without_suffix(path: Path) -> Path:
    """A file's name without that of its compression: a.tsv.gz -> a.tsv."""
    return path.with_suffix("") if any(path.suffix in kind.suffixes for kind in COMPRESSIONS) else path


@contextmanager
def decompressed(path: Path, raw: IO[bytes]) -> Iterator[IO[bytes]]:
    """The bytes of an open file, uncompressed; raises DataError if they are damaged, cut off, or misnamed."""
    start = raw.read(N_FIRST_BYTES)
    raw.seek(0)
    kind = next((kind for kind in COMPRESSIONS if _is_of(kind, start)), None)
    if kind is None:
        _check_name(path, start)
        yield raw
        return
    try:
        file = kind.open(raw)
    except ImportError:
        raise DataError(
            f"{path}: is compressed with Zstandard, for which Python needs a library: pip install backports.zstd "
            "(extra corpora); or unpack it with unzstd"
        ) from None
    try:
        yield cast("IO[bytes]", file)
    except EOFError:
        raise DataError(f"{path}: the {kind.name} file is cut off; copy or download it again") from None
    except (zlib.error, lzma.LZMAError) as error:
        raise _damaged(path, kind, error) from None
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile) or error.errno is None:  # bzip2 has no error of its own
            raise _damaged(path, kind, error) from None
        raise
    except Exception as error:
        if type(error).__name__ == "ZstdError":  # of either module
            raise _damaged(path, kind, error) from None
        raise


def _is_of(kind: Compression, start: bytes) -> bool:
    if kind.name == "bzip2":
        return start[:3] == b"BZh" and start[3:4].isdigit() and start[4:10] in BZIP2_BLOCKS
    return start.startswith(kind.first_bytes)


def _check_name(path: Path, start: bytes) -> None:
    """Raise DataError if an uncompressed file is named like a compressed one."""
    for kind in COMPRESSIONS:
        if path.suffix in kind.suffixes:
            is_cut = kind.first_bytes.startswith(start)
            what = (
                "is cut off" if is_cut else f"is not compressed with {kind.name}, though its name ends in {path.suffix}"
            )
            raise DataError(f"{path}: {what}; copy it again, or rename it")


def _damaged(path: Path, kind: Compression, error: Exception) -> DataError:
    return DataError(f"{path}: the {kind.name} file is damaged ({error}); copy or download it again")
