"""JSON files that anyone may have written or damaged, and records: JSON files with a checksum of their own."""

from __future__ import annotations

__all__ = ["dump_checked", "dump_record", "parse_json", "read_bytes", "read_checked", "read_json", "read_record"]

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LARGEST = 1 << 28
"""Largest size of a file, in bytes"""


def parse_json(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """The value of a text; raises ValueError, also for an object with one key twice, and for too deep a nesting.

    parse_constant: what to make of NaN and Infinity.
    """
    try:
        return json.loads(text, parse_constant=parse_constant, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, of whose values for one key JSON does not say which counts."""
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{repeated[:60]!r} occurs twice in one object")
    return values


def read_json(path: Path) -> Any:
    """The value in a file; raises OSError if it cannot be read and ValueError if it is no JSON."""
    return parse_json(read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """All of a small file; raises OSError if it cannot be read and ValueError if it is no small file."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError("not a regular file")  # /dev/zero never ends, and a pipe may never begin
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"larger than {LARGEST:,} bytes")
    return data


def dump_record(content: Mapping[str, Any]) -> bytes:
    """A record of `content`, which JSON can hold."""
    content = json.loads(json.dumps(content, default=str))
    return json.dumps({"content": content, "sha256": _checksum(content)}, indent=1).encode()


def read_record(path: Path) -> dict[str, Any]:
    """The content of a record; raises OSError if it cannot be read and ValueError if it is none, or damaged."""
    record = read_json(path)
    if not isinstance(record, dict) or not isinstance(record.get("content"), dict):
        raise ValueError("no record")
    if record.get("sha256") != _checksum(record["content"]):
        raise ValueError("its checksum does not match")
    content: dict[str, Any] = record["content"]
    return content


def dump_checked(content: Mapping[str, Any]) -> str:
    """An object for other programs to read, too: `content` as it is, and a checksum under "sha256"."""
    content = json.loads(json.dumps(content))
    return json.dumps({**content, "sha256": _checksum(content)}, indent=1) + "\n"


def read_checked(path: Path, *required: str) -> dict[str, Any]:
    """What `dump_checked` wrote; raises OSError if it cannot be read and ValueError if it is no object, or damaged.

    required: keys that it must have; without "sha256" among them, an object without a checksum is taken as it is.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError("no object")
    if missing := [key for key in required if key not in content]:
        raise ValueError(f"it has no '{missing[0]}'")
    checksum = content.pop("sha256", None)
    if checksum != _checksum(content) and (checksum is not None or "sha256" in required):
        raise ValueError("its checksum does not match")
    return content


def _checksum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
