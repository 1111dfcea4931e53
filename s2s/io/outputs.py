"""Outputs: a command writes over nothing that it reads, and over nothing that s2s did not write.

A file that s2s writes at a user's word has a record beside it, .NAME.made-of.json, with the hash of what was written.
"""

from __future__ import annotations

__all__ = ["check_not_read", "check_replaceable", "is_ours", "record_of", "record_output", "write_output"]

import hashlib
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from s2s.errors import ConfigError
from s2s.io.atomic import sha256, write_file
from s2s.io.json_files import dump_record, read_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def check_not_read(written: str, paths: Iterable[Path], read: Mapping[Path, str]) -> None:
    """Raise ConfigError if one of `paths` is a file or folder that is read, or lies in such a folder.

    written: the option that names them; read: with the option that names each. Compared by inode, so that no link
    hides that two are the same.
    """
    known = {identity: path for path in read if (identity := _identity(path))}
    for path in paths:
        for place in (path, *(here := path.resolve(strict=False)).parents, here):
            if (identity := _identity(place)) in known and identity:
                what = known[identity]
                raise ConfigError(
                    f"{written} would write over {read[what]}, which is read; give another {written.partition('=')[0]}"
                    if place in (path, here)
                    else f"{written} lies in {read[what]}, which is read; give another {written.partition('=')[0]}"
                )


def check_replaceable(written: str, path: Path, *, overwrite: bool) -> None:
    """Raise ConfigError if s2s did not write the file `path`, or not as it is now, unless `overwrite`.

    written: the option that names it. What is empty, and devices and pipes, can be written to.
    """
    if overwrite or is_ours(path) or not (path.is_file() and path.stat().st_size):
        return
    raise ConfigError(
        f"{written}: {path} is there, and s2s did not write it, or not as it is now; give another "
        f"{written.partition('=')[0]}, or overwrite=true"
    )


def is_ours(path: Path) -> bool:
    """Whether s2s wrote the file as it is now."""
    with suppress(OSError, ValueError, KeyError):
        record = read_record(record_of(path))
        return record["output"] == path.name and sha256(path) in (record["sha256"], record.get("replaces"))
    return False


def record_of(path: Path) -> Path:
    """The record of an output."""
    return path.with_name(f".{path.name}.made-of.json")


def write_output(path: Path, data: bytes) -> None:
    """Replace `path`, and record that s2s wrote it; a device or a pipe gets the data as it is."""
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    record_output(path, {"made_of": {}, "sha256": hashlib.sha256(data).hexdigest()})
    write_file(path, data)


def record_output(path: Path, content: Mapping[str, Any]) -> None:
    """Record that s2s is about to write `path`; content: its hash, and what it is made of.

    The file that it replaces is known, too, for a command that is killed before it has done so.
    """
    replaces = sha256(path) if path.is_file() else None
    write_file(record_of(path), dump_record({**content, "output": path.name, "replaces": replaces}))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116  Path's own raises on a name that is too long
    except (OSError, ValueError):
        return None
    is_kept = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)  # a device has nothing to lose
    return (status.st_dev, status.st_ino) if is_kept else None
