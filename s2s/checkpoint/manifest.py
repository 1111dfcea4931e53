"""MANIFEST.json: size and sha256 of every file of a checkpoint, by which loading verifies it."""

from __future__ import annotations

__all__ = ["STATE", "SUFFIX", "check_replaceable", "groups", "manifest_hash", "verify", "write_manifest"]

import json
import os
import re
from typing import TYPE_CHECKING

from s2s.errors import CheckpointError
from s2s.io import atomic
from s2s.io.json_files import parse_json, read_bytes
from s2s.io.manifest import check_file

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

MANIFEST = "MANIFEST.json"
STATE = "state.json"
SUFFIX = ".safetensors"
_FILE = re.compile(r"[A-Za-z0-9_]+\.(safetensors|json)")


def write_manifest(path: Path, names: Sequence[str]) -> None:
    """Write and sync the size and sha256 of each of the files `names` in `path`."""
    assert all(map(_FILE.fullmatch, names)), f"not names of a checkpoint's files: {names}"
    files = {name: ((path / name).stat().st_size, atomic.sha256(path / name)) for name in names}
    atomic.write_synced(path / MANIFEST, _render(files))


def groups(path: Path) -> list[str]:
    """The groups of tensors that the manifest names, such as model and optim."""
    return [name.removesuffix(SUFFIX) for name in _read(path) if name.endswith(SUFFIX)]


def manifest_hash(path: Path) -> str:
    """A hash of the manifest, which holds those of all files: equal for equal checkpoints."""
    return atomic.sha256(path / MANIFEST)


def verify(path: Path, only: Collection[str] | None = None) -> None:
    """Raise CheckpointError unless every file matches the manifest; `only` restricts tensors to these groups."""
    files = _read(path)
    for name, (n_bytes, sha256) in files.items():
        if only is None or not name.endswith(SUFFIX) or name.removesuffix(SUFFIX) in only:
            _verify_file(path / name, n_bytes, sha256)
    # Other files, such as notes and .nfs*, are ignored; weights without a hash are not.
    for file in path.glob(f"[!.]*{SUFFIX}"):
        if file.name not in files:
            raise CheckpointError(f"{file} is not in the manifest beside it: remove it")


def check_replaceable(path: Path) -> None:
    """Raise CheckpointError if `path` is there and no checkpoint, or holds another file."""
    if not os.path.lexists(path):
        return
    others = {file.name for file in path.iterdir()} - {MANIFEST, *_read(path)} if path.is_dir() else {path.name}
    if others:
        raise CheckpointError(f"{path} holds {min(others)}, which s2s did not write: move it, or give another name")


def _verify_file(file: Path, n_bytes: int, sha256: str) -> None:
    try:
        check_file(file, n_bytes, sha256)
    except ValueError as error:
        raise CheckpointError(str(error)) from None


def _read(path: Path) -> dict[str, tuple[int, str]]:
    """Name -> size and sha256. The manifest itself is checked byte for byte: only one rendering is valid."""
    file = path / MANIFEST
    try:
        raw = read_bytes(file)
        files = {name: (entry["size"], entry["sha256"]) for name, entry in parse_json(raw).items()}
    except FileNotFoundError:
        raise CheckpointError(f"{path} is no complete checkpoint: it has no {MANIFEST}") from None
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise CheckpointError(f"{file} is damaged: {error}") from None
    if raw != _render(files).encode() or STATE not in files or not all(map(_FILE.fullmatch, files)):
        raise CheckpointError(f"{file} is damaged")
    return files


def _render(files: Mapping[str, tuple[int, str]]) -> str:
    entries = {name: {"size": n_bytes, "sha256": sha256} for name, (n_bytes, sha256) in files.items()}
    return json.dumps(entries, indent=1)
