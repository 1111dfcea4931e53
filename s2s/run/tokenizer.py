"""The copy of the tokeniser inside a run, with its hashes."""

from __future__ import annotations

__all__ = ["MANIFEST", "copy_tokenizer", "identity", "recorded_identity"]

import hashlib
import json
import os
import shutil
from typing import TYPE_CHECKING

from s2s.errors import CheckpointError
from s2s.io import atomic
from s2s.io.json_files import read_json

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = "MANIFEST.json"


def identity(folder: Path) -> str:
    """One hash over the names and contents of all files; CheckpointError if one of them cannot be read."""
    try:
        return _combined(_hashes(folder))
    except OSError as error:
        raise CheckpointError(f"{folder}: the tokeniser cannot be read: {error}") from error


def recorded_identity(folder: Path) -> str | None:
    """The identity that was recorded when the tokeniser was copied here; None if there is none."""
    try:
        return _combined(dict(read_json(folder / MANIFEST)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{folder / MANIFEST} is damaged: {error}") from error


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy the folder, with its hashes, atomically."""
    temp = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temp, ignore_errors=True)
    shutil.copytree(source, temp)
    hashes = _hashes(temp)
    for name in hashes:
        atomic.fsync(temp / name)
    atomic.write_synced(temp / MANIFEST, json.dumps(hashes, indent=1))
    atomic.fsync(temp)
    shutil.rmtree(target, ignore_errors=True)
    os.rename(temp, target)  # noqa: PTH104
    atomic.fsync(target.parent)


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("[!.]*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): atomic.sha256(path) for path in files}


def _combined(hashes: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()
