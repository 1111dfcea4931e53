"""log.jsonl: one record a line, for programs; and TensorBoard's event files, where it is installed."""

from __future__ import annotations

__all__ = ["Board", "Journal", "plain"]

import json
import math
from typing import TYPE_CHECKING, Any

from s2s.io.atomic import write_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class Journal:
    """A file that grows by whole lines, each flushed; a line that a crash or a full disk tore is no record."""

    def __init__(self, path: Path, step: int) -> None:
        """Continue after update `step`: records of later ones, which will come again, are dropped."""
        self.path = path
        kept = [line for line, record in _lines(path) if record["step"] <= step]
        write_file(path, b"".join(line + b"\n" for line in kept))
        self.file = path.open("ab")
        self.torn = False

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record; OSError if the disk is full, after which the journal is still good."""
        line = json.dumps(plain(record)).encode() + b"\n"
        torn, self.torn = self.torn, True
        self.file.write(b"\n" * torn + line)
        self.file.flush()
        self.torn = False

    def records(self, kind: str) -> Iterator[dict[str, Any]]:
        """All records of one kind, oldest first."""
        return (record for _, record in _lines(self.path) if record.get("kind") == kind)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class Board:
    """TensorBoard's scalars; nothing where it is not installed."""

    def __init__(self, directory: Path, step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.writer = None
            return
        self.writer = SummaryWriter(str(directory), purge_step=step + 1)

    def write(self, group: str, record: Mapping[str, Any]) -> None:
        """Every number of the record, as `group/name`."""
        if self.writer is None:
            return
        for name, value in record.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and name != "step":
                self.writer.add_scalar(f"{group}/{name}", value, record["step"])

    def close(self) -> None:
        """Write what is left."""
        if self.writer is not None:
            self.writer.close()


def plain(value: Any) -> Any:
    """The same value as strict JSON can hold it: what is not finite becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [plain(below) for below in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Lines that hold a whole record, and the record; each has its step."""
    if not path.is_file():
        return
    for line in path.read_bytes().split(b"\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            yield line, record
