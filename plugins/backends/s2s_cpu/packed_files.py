"""Packed models in the user's cache, where only this user can have written them.

(They are not kept beside a run: a run may come from anyone, and the functions in C trust what they are given.)
"""

from __future__ import annotations

__all__ = ["PackedFiles"]

import hashlib
import json
import logging
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.io import check_trusted, private_cache
from s2s_cpu.compiled import cache_warning
from s2s_cpu.library import native_library
from s2s_cpu.packed_model import DIGEST, PackedModel
from s2s_cpu.packed_search import packed_search

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from s2s import Choice, Vocab
    from s2s.decoding import BeamConfig, SampleConfig, SearchRequest
    from s2s_cpu.packed_search import PackedSearch

logger = logging.getLogger(__name__)

N_DIGITS = 32
"""Of a digest, in the name of a file"""
N_POSITIONS = 2048
"""Positions whose encodings are in a file, unless the model has fewer; longer sentences are searched with torch"""
MOST_BYTES = 2**32
"""Of all files; those that were used least recently are removed, and a model has at most half of it"""


class PackedFiles:
    """See `s2s.generation.packed_format.PackedFormat`."""

    def __init__(self, _: Choice) -> None:
        pass

    def identity(self) -> str:
        """A digest of the functions that this processor has, which alone read what they have packed; empty: none."""
        functions = native_library().functions
        try:
            return hashlib.sha256(Path(functions._name).read_bytes()).hexdigest() if functions else ""
        except OSError:  # they were compiled for this process alone
            return ""

    def find(self, key: str) -> tuple[dict[str, Any], KeptModel] | None:
        """What `keep` recorded under this key, and the model; None: nothing that can be used."""
        try:
            folder = _folder()
            path = folder / f"{key}.json"
            kept = _read(path)
            weights = folder / kept["weights"]
            _check(weights)
            with suppress(OSError):  # where nothing may be written, the files are as good as elsewhere
                for used in (path, weights):
                    os.utime(used)
            return kept["record"], KeptModel(weights)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, key: str, request: SearchRequest, record: Mapping[str, Any]) -> bool:
        """Keep a request's model under its digest, whatever its key, and the record under `key`; False if that cannot
        be done."""
        from s2s_cpu.packing import pack_model  # torch

        try:
            folder = _folder()
            with _temporary(folder / f"{key}.bin") as written:
                digest = pack_model(written, request, N_POSITIONS, MOST_BYTES // 2)
                if digest is None:
                    return False
                weights = _put(written, folder / f"{digest[:N_DIGITS]}.bin")
            with _temporary(folder / f"{key}.json") as written:
                body = json.dumps({"weights": weights.name, "record": record}).encode()
                written.write_bytes(hashlib.sha256(body).hexdigest().encode() + body)
                _put(written, folder / f"{key}.json")
            _remove_oldest(folder)
        except IsADirectoryError as error:
            logger.warning("nothing is kept for the next command, which loads the model again: %s; remove it", error)
            return False
        except OSError as error:  # the cache cannot be written to, or is full
            logger.warning(cache_warning(error))
            return False
        return True


class KeptModel:
    """See `s2s.generation.packed_format.PackedModel`."""

    def __init__(self, weights: Path) -> None:
        self.weights = weights

    def search(
        self, options: BeamConfig | SampleConfig, vocab: Vocab, nbest: int, *, constrained: bool, listed: bool
    ) -> PackedSearch | None:
        """See `packed_search`; None also for a damaged file, which is removed, so that it is written again."""
        try:
            model = PackedModel(self.weights)
        except OSError:  # such as too little memory for it
            return None
        except (ValueError, KeyError, TypeError):
            with suppress(OSError):
                self.weights.unlink()
            return None
        return packed_search(model, options, vocab, nbest, constrained=constrained, listed=listed)


def _read(path: Path) -> dict[str, Any]:
    """The contents of a record; raises ValueError or OSError for one that `keep` did not write so."""
    _check(path)
    data = path.read_bytes()
    if hashlib.sha256(data[DIGEST:]).hexdigest().encode() != data[:DIGEST]:
        raise ValueError(f"{path} is damaged")
    kept: dict[str, Any] = json.loads(data[DIGEST:])
    return kept


def _check(path: Path) -> None:
    """Raise OSError for what another user may have written, and for what is no file: a pipe may never begin."""
    check_trusted(path)
    if not path.is_file():
        raise OSError(f"{path} is no file")


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A name beside `path` for a file that is removed unless it is put elsewhere."""
    own = path.with_name(f".{path.name}.{os.urandom(4).hex()}")  # several processes may write one at the same time
    try:
        yield own
    finally:
        own.unlink(missing_ok=True)


def _put(written: Path, path: Path) -> Path:
    """Rename a file, which then only this user may read and write."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder")
    written.chmod(0o600)
    return written.replace(path)


def _folder() -> Path:
    return private_cache("packed")


def _remove_oldest(folder: Path) -> None:
    """Keep the files that were used last, as many as have room; another process may be removing them, too."""
    n_bytes = 0
    with suppress(FileNotFoundError):
        used = sorted(((entry.stat().st_mtime_ns, entry) for entry in folder.iterdir()), reverse=True)
        for _, path in used:
            n_bytes += path.stat().st_size
            if n_bytes > MOST_BYTES:
                path.unlink()
