"""Files that apply to a whole run, with checksums: a flipped bit would change what it computes."""

from __future__ import annotations

__all__ = ["is_as_written", "matches_checksum", "read_run_record", "with_checksum"]

import hashlib
from typing import TYPE_CHECKING, Any

from s2s.checkpoint import steps
from s2s.errors import CheckpointError
from s2s.io.json_files import read_bytes, read_record

if TYPE_CHECKING:
    from pathlib import Path

CHECKSUM = "# sha256 of the lines above: "


def read_run_record(path: Path, *keys: str) -> dict[str, Any] | None:
    """The values that `dump_record` wrote under `keys` into a file of a run when it began; None if there is no file.

    None as well if the run has no checkpoint: it begins anew, perhaps as something else. Raises CheckpointError if the
    file is damaged.
    """
    if not (path.is_file() and steps(path.parent / "checkpoints")):
        return None
    try:
        record = read_record(path)
        return {key: record[key] for key in keys}
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"{path} is damaged ({error}): put it back, or give the option itself, or another run=… to start anew"
        ) from None


def with_checksum(yaml: str) -> str:
    """The same lines, and a comment with their checksum."""
    return f"{yaml}{CHECKSUM}{hashlib.sha256(yaml.encode()).hexdigest()}\n"


def matches_checksum(path: Path) -> bool:
    """Whether a YAML file is as `with_checksum` made it, or has no checksum."""
    lines, comment, checksum = read_bytes(path).rpartition(CHECKSUM.encode())
    return not comment or hashlib.sha256(lines).hexdigest().encode() == checksum.strip()


def is_as_written(path: Path) -> bool:
    """Whether a YAML file is as `with_checksum` made it."""
    return CHECKSUM.encode() in read_bytes(path) and matches_checksum(path)
