"""An encoded corpus on disk, memory-mapped: opening it takes the same time whatever its size.

A folder: `src.ids` and `tgt.ids` hold the concatenated ids of all sentences, without bos and eos; `src.offsets` and
`tgt.offsets` (n + 1 numbers) hold where each begins; beside each file are the checksums of its blocks. `corpus.json`,
written last, is the manifest.
"""

from __future__ import annotations

__all__ = ["Ids", "MappedCorpus", "MappedCorpusWriter", "RaggedIds"]

import hashlib
from array import array
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import index
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from s2s.errors import DataError
from s2s.io.atomic import fsync, write_file
from s2s.io.checked_map import BlockChecksums, CheckedMap, checksum_file
from s2s.io.json_files import dump_record, read_record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

FORMAT = 1
MANIFEST = "corpus.json"
SIDES = ("src", "tgt")
REBUILD_HINT = "delete the folder and prepare again"
OFFSET = np.dtype("<i8")
Ids = NDArray[Any]
"""Ids of a sentence [length], in the smallest type that holds the vocabulary"""


@dataclass(frozen=True)
class RaggedIds:
    """n sequences of ids, concatenated; t ids in all."""

    ids: Ids
    """[t]"""
    lengths: NDArray[np.int64]
    """[n]"""

    @classmethod
    def from_lists(cls, sentences: Sequence[Sequence[int]]) -> Self:
        """From a list of lists; raises TypeError for what is no whole number, which numpy would round or parse."""
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        ids = array("q")  # faster than np.fromiter, which also takes 1.5 and "1"
        try:
            deque(map(ids.fromlist, sentences), maxlen=0)  # type: ignore[arg-type]
        except TypeError:  # no lists, or no ids
            ids = array("q", map(index, chain.from_iterable(sentences)))
        return cls(np.frombuffer(ids, np.int64), lengths)

    def filter(self, kept: NDArray[np.bool_]) -> RaggedIds:
        """The sequences where kept [n] is True."""
        return RaggedIds(self.ids[np.repeat(kept, self.lengths)], self.lengths[kept])


class MappedCorpus:
    """Pairs of ids, read from disk when they are used: `corpus[i]` is (src, tgt)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = _read_manifest(directory)
        self.n_pairs: int = self.manifest["pairs"]
        n_ids = [self.manifest["ids"][side] for side in SIDES]
        types = [np.dtype(self.manifest["types"][side]) for side in SIDES]
        self._check_sizes()
        self._ids = [self._map(f"{s}.ids", t, n) for s, t, n in zip(SIDES, types, n_ids, strict=True)]
        self._offsets = [self._map(f"{side}.offsets", OFFSET, self.n_pairs + 1) for side in SIDES]

    def __len__(self) -> int:
        return self.n_pairs

    def __getitem__(self, row: int) -> tuple[Ids, Ids]:
        return self._sentence(0, row), self._sentence(1, row)

    def _sentence(self, side: int, row: int) -> Ids:
        begin, end = self._offsets[side].slice(row, row + 2).tolist()  # Python's integers are quicker than numpy's
        return self._ids[side].slice(begin, end)

    def __reduce__(self) -> tuple[type[MappedCorpus], tuple[Path]]:
        """Pickled as its path: another process maps the files itself."""
        return MappedCorpus, (self.directory,)

    def lengths(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lengths of both sides of rows [n], without bos and eos."""
        src, tgt = (offsets.take(rows + 1) - offsets.take(rows) for offsets in self._offsets)
        return src, tgt

    @cached_property
    def n_ids(self) -> tuple[int, int]:
        """Total number of ids of each side."""
        return self.manifest["ids"]["src"], self.manifest["ids"]["tgt"]

    def ids(self, side: int, n: int) -> Ids:
        """The first n ids of the source (0) or the target (1), sentence after sentence: [<= n]"""
        return self._ids[side].slice(0, min(n, len(self._ids[side])))

    def _check_sizes(self) -> None:
        for name, recorded in self.manifest["files"].items():
            path = self.directory / name
            size = path.stat().st_size if path.is_file() else None
            if size != recorded["bytes"]:
                what = "is missing" if size is None else f"has {size:,} bytes"
                raise self._damaged(f"{name} {what}, expected {recorded['bytes']:,}")

    def _map(self, name: str, dtype: np.dtype[Any], count: int) -> CheckedMap:
        if self.manifest["files"][name]["bytes"] != count * dtype.itemsize:
            raise self._damaged(f"{MANIFEST} contradicts itself about {name}")
        try:
            return CheckedMap(self.directory / name, dtype, count, REBUILD_HINT)
        except OSError as error:
            raise self._damaged(f"{error.strerror}: {error.filename}") from None

    def _damaged(self, what: str) -> DataError:
        return DataError(f"{self.directory}: the corpus is damaged: {what}; {REBUILD_HINT}")


def _read_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        content = read_record(path)
    except FileNotFoundError:
        raise DataError(f"{directory}: no prepared corpus here ({MANIFEST} is missing); {REBUILD_HINT}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: damaged ({error}); {REBUILD_HINT}") from None
    if content["format"] != FORMAT:
        raise DataError(f"{path}: format {content['format']}, expected {FORMAT}; {REBUILD_HINT}")
    return content


class _File:
    """A file that is appended to, and its manifest entry."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[bytes] = path.open("wb")
        self.hash, self.blocks = hashlib.sha256(), BlockChecksums()
        self.n_bytes = 0

    def write(self, array: NDArray[Any]) -> None:
        data = array.tobytes()
        self.file.write(data)
        self.hash.update(data)
        self.blocks.append(data)
        self.n_bytes += len(data)

    def close(self) -> dict[str, Any]:
        self.file.close()
        fsync(self.path)
        write_file(checksum_file(self.path), self.blocks.dump())
        return {"bytes": self.n_bytes, "sha256": self.hash.hexdigest()}


class MappedCorpusWriter:
    """Appends pairs to a new corpus; `corpus.json` is written when the `with` block ends without an error."""

    def __init__(self, directory: Path, n_src: int, n_tgt: int) -> None:
        """`n_src` and `n_tgt` are the vocabularies' sizes."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.n_pairs = 0
        self.sizes = (n_src, n_tgt)
        self.types = [np.dtype("<u2") if size <= 1 << 16 else np.dtype("<u4") for size in self.sizes]
        self.ends = [0, 0]
        self.ids = [_File(directory / f"{side}.ids") for side in SIDES]
        self.offsets = [_File(directory / f"{side}.offsets") for side in SIDES]
        for offsets in self.offsets:
            offsets.write(np.zeros(1, OFFSET))

    def append(self, src: RaggedIds, tgt: RaggedIds) -> None:
        """Append pairs; both sides have the same number of sequences."""
        assert len(src.lengths) == len(tgt.lengths)
        for side, sentences in enumerate((src, tgt)):
            self._check_range(side, sentences.ids)
            self.ids[side].write(sentences.ids.astype(self.types[side]))
            ends = self.ends[side] + np.cumsum(sentences.lengths)
            self.offsets[side].write(ends.astype(OFFSET))
            self.ends[side] += len(sentences.ids)
        self.n_pairs += len(src.lengths)

    def _check_range(self, side: int, ids: Ids) -> None:
        if len(ids) and not 0 <= ids.min() <= ids.max() < self.sizes[side]:
            raise DataError(
                f"{SIDES[side]} id {ids.max() if ids.max() >= self.sizes[side] else ids.min()} is not in the "
                f"vocabulary of {self.sizes[side]} tokens; the task's encode and vocab contradict each other"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        files = {file.path.name: file.close() for file in (*self.ids, *self.offsets)}
        if kind is None:
            content = {
                "format": FORMAT,
                "pairs": self.n_pairs,
                "ids": dict(zip(SIDES, self.ends, strict=True)),
                "types": {side: dtype.str for side, dtype in zip(SIDES, self.types, strict=True)},
                "files": files,
            }
            write_file(self.directory / MANIFEST, dump_record(content))
