"""Packed models and settings of searches in the user's cache, where only this user can have written them.

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
from s2s_cpu.packed_search import PackedSearch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from s2s import Choice
    from s2s.decoding import Search, SearchRequest

logger = logging.getLogger(__name__)

N_POSITIONS = 2048
"""Positions whose encodings are in a file, unless the model has fewer; longer sentences are searched with torch"""
MOST_BYTES = 2**32
"""Of all files; those that were used least recently are removed, and a model has at most half of it"""


class PackedFiles:
    """See `s2s.generation.packed.PackedFormat`."""

    def __init__(self, _: Choice) -> None:
        pass

    def identity(self) -> str:
        """A digest of the functions that this processor has, which alone read what they have packed; empty: none."""
        functions = native_library().functions
        try:
            return hashlib.sha256(Path(functions._name).read_bytes()).hexdigest() if functions else ""
        except OSError:  # they were compiled for this process alone
            return ""

    def find(self, key: str) -> tuple[dict[str, Any], PackedSearch] | None:
        """What `keep` recorded under this key, and the search; None: nothing that can be used."""
        try:
            folder = _folder()
            path = folder / f"{key}.json"
            kept = _read(path)
            weights = folder / kept["weights"]
            _check(weights)
            search = PackedSearch(PackedModel(weights), kept["search"])
            with suppress(OSError):  # where nothing may be written, the files are as good as elsewhere
                for used in (path, weights):
                    os.utime(used)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return kept["record"], search

    def keep(self, key: str, model_key: str, search: Search, request: SearchRequest, record: Mapping[str, Any]) -> bool:
        """Keep the model under `model_key`, and the search and the record under `key`; False if that cannot be done."""
        from s2s_cpu.packing import pack_model, pack_search  # torch

        settings = pack_search(search, request, N_POSITIONS)
        if settings is None:
            return False
        try:
            folder = _folder()
            weights = folder / f"{model_key}{'-listed' * settings['shortlist']}.bin"
            if not _is_whole(weights):
                with _written(weights) as path:
                    if not pack_model(path, request, N_POSITIONS, MOST_BYTES // 2):
                        return False
            with _written(folder / f"{key}.json") as path:
                body = json.dumps({"weights": weights.name, "search": settings, "record": record}).encode()
                path.write_bytes(hashlib.sha256(body).hexdigest().encode() + body)
            _remove_oldest(folder)
        except IsADirectoryError as error:
            logger.warning("nothing is kept for the next command, which loads the model again: %s; remove it", error)
            return False
        except OSError as error:  # the cache cannot be written to, or is full
            logger.warning(cache_warning(error))
            return False
        return True


def _read(path: Path) -> dict[str, Any]:
    """The contents of a file of settings; raises ValueError or OSError for one that `keep` did not write so."""
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


def _is_whole(weights: Path) -> bool:
    try:
        _check(weights)
        PackedModel(weights)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


@contextmanager
def _written(path: Path) -> Iterator[Path]:
    """A name to write a file under, which is then renamed, if it exists; only this user may read and write it."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder")
    own = path.with_name(f".{path.name}.{os.getpid()}")  # two processes may write one at the same time
    try:
        yield own
        if own.exists():
            own.chmod(0o600)
            os.replace(own, path)  # noqa: PTH105
    finally:
        own.unlink(missing_ok=True)


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
