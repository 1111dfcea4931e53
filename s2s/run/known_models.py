"""Which runs in the cache published models have become, so that the next command does not open the models' files.

To open them takes torch, whose import takes longer than most texts.
"""

from __future__ import annotations

__all__ = ["VERSION", "known_run", "record_run", "stamps"]

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.io.atomic import write_file
from s2s.io.json_files import read_json
from s2s.io.user_cache import cache_folder
from s2s.run.origin import RECORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.plugin import Plugins

VERSION = 3
"""Raised when models are imported in another way than before, so that those in the cache are made again"""


def known_run(path: Path, plugins: Plugins) -> Path | None:
    """The run that `record_run` recorded for this path, if no file in its folder, or that was read, has changed."""
    try:
        record = read_json(_record(path, plugins))
        directory = cache_folder("models") / Path(record["run"]).name
        files = stamps(Path(file) for file, *_ in record["files"])
        same = record["version"] == VERSION and [record["folder"], record["files"]] == [_beside(path), files]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return directory if same and (directory / RECORD).is_file() else None


def record_run(path: Path, plugins: Plugins, files: Sequence[Path], directory: Path) -> None:
    """Record that the model at a path, of these files, has become the run in this folder of the cache.

    It replaces what was recorded of the path; records of models or runs that are gone are removed.
    """
    with suppress(OSError):  # a cache that cannot be written to only takes longer
        record = {"version": VERSION, "run": directory.name, "folder": _beside(path), "files": stamps(files)}
        write_file(_record(path, plugins), json.dumps(record))
        _remove_outdated(cache_folder("models"))


def stamps(files: Iterable[Path]) -> list[list[str | int]]:
    """Path, bytes and time of the last change of each file, behind links; raises OSError if one does not exist."""
    return [[str(file.resolve()), (stat := file.stat()).st_size, stat.st_mtime_ns] for file in files]


def _record(path: Path, plugins: Plugins) -> Path:
    """The record's file, of the path and all that may read it; raises OSError for a path that does not exist."""
    places = [str(place.resolve(strict=True)) for place in (path, path.parent)]
    named = [VERSION, places, sorted(plugins.loaded), plugins.registry.names("model_format")]
    digest = hashlib.sha256(json.dumps(named).encode()).hexdigest()
    return cache_folder("models") / f".{digest[:32]}.json"


def _beside(path: Path) -> list[list[str | int]]:
    """The stamps of a path and of all files in its folder."""
    return stamps([path, *sorted((path if path.is_dir() else path.parent).iterdir())])


def _remove_outdated(cache: Path) -> None:
    """Remove the records of models and of runs that are gone, and those that are damaged or of an older version."""
    for file in cache.glob(f".{'?' * 32}.json"):
        try:
            record = read_json(file)
            is_there = os.path.lexists(record["folder"][0][0]) and (cache / Path(record["run"]).name).is_dir()
            kept = is_there and record["version"] >= VERSION
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            kept = False
        if not kept:
            file.unlink(missing_ok=True)
