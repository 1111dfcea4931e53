"""Manifests: JSON files with a checksum of their own, and size and sha256 of files beside them.

What a command reads again later is described by one, so that damage, and a file of another run, are found.
"""

from __future__ import annotations

__all__ = ["check_file", "describe_file", "read_manifest", "write_manifest"]

import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from s2s.io.atomic import sha256, write_file
from s2s.io.json_files import dump_checked, read_checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FILES, CHECKSUM = "files", "sha256"


def write_manifest(path: Path, content: Mapping[str, Any], names: Iterable[str] = ()) -> None:
    """Write `content`, and size and sha256 of each of the files `names` beside it under "files"."""
    files = {name: describe_file(path.parent / name) for name in names}
    write_file(path, dump_checked({**content, FILES: files}))


def read_manifest(path: Path) -> dict[str, Any]:
    """What `write_manifest` was given, and its "files", each of which is as it was.

    Raises OSError if the manifest cannot be read, and ValueError if it, or a file, is damaged or not there.
    """
    try:
        content = read_checked(path, CHECKSUM, FILES)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    files = content[FILES]
    if not isinstance(files, dict) or not all(map(_is_entry, files.items())):
        raise ValueError(f"{path} is damaged: its list of files is malformed")
    for name, entry in files.items():
        check_file(path.parent / name, entry["size"], entry["sha256"])
    return content


def describe_file(path: Path) -> dict[str, Any]:
    """Size and sha256 of a file, by their names."""
    return {"size": path.stat().st_size, "sha256": sha256(path)}


def check_file(path: Path, n_bytes: int, digest: str) -> None:
    """Raise ValueError unless the file has this size and sha256; a pipe or a device is not read."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is damaged: no regular file")
        if status.st_size != n_bytes:
            raise ValueError(f"{path} is damaged: {status.st_size} bytes, and the manifest says {n_bytes}")
        if sha256(path) != digest:
            raise ValueError(f"{path} is damaged: its sha256 is not the manifest's")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _is_entry(item: tuple[str, Any]) -> bool:
    """Whether a name is that of a file below the manifest's folder, with its size and sha256."""
    name, entry = item
    path = PurePosixPath(name)
    is_inside = path.parts and not path.is_absolute() and ".." not in path.parts
    types = {key: type(value) for key, value in entry.items()} if isinstance(entry, dict) else {}
    return bool(is_inside) and types == {"size": int, "sha256": str}
