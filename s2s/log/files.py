"""log.jsonl: one record a line."""

from __future__ import annotations

__all__ = ["JsonLines", "nonfinite_to_null", "scalars"]

import json
import math
from typing import TYPE_CHECKING, Any

from s2s.io.atomic import write_file
from s2s.io.json_files import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class JsonLines:
    """A file of records, each flushed; a line that a crash or a full disk cut short is no record."""

    def __init__(self, path: Path, step: int) -> None:
        """Continue after update `step`: records of later updates, which are trained again, are dropped."""
        self.path = path
        write_file(path, b"".join(line + b"\n" for line, record in _lines(path) if record["step"] <= step))
        self.file = path.open("ab")
        self.incomplete = False

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record; OSError if the disk is full, after which the file can still be written."""
        before, self.incomplete = b"\n" * self.incomplete, True
        self.file.write(before + json.dumps(nonfinite_to_null(record)).encode() + b"\n")
        self.file.flush()
        self.incomplete = False

    def records(self, kind: str) -> Iterator[dict[str, Any]]:
        """All records of one kind, oldest first."""
        return (record for _, record in _lines(self.path) if record.get("kind") == kind)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Each line that holds a whole record with its step, and the record."""
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        try:
            record = parse_json(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            yield line, record


def nonfinite_to_null(value: Any) -> Any:
    """The same value as strict JSON can hold it: a number that is not finite becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): nonfinite_to_null(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [nonfinite_to_null(below) for below in value]
    return value if isinstance(value, str | int | None) else str(value)


def scalars(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a record under their names after a prefix, such as `train/`; without the step."""
    numbers = {key: value for key, value in record.items() if isinstance(value, int | float) and key != "step"}
    return {f"{prefix}{key}": float(value) for key, value in numbers.items()}
