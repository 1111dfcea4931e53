"""What a run logged during training: curves, scores, time and operations."""

from __future__ import annotations

__all__ = ["RunLog", "read_log"]

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from s2s.io import parse_json, read_json
from s2s_report.curves import Series

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

CURVES = {
    "Training loss": ("update", "loss"),
    "Training nll": ("update", "nll"),
    "Learning rate": ("update", "lr"),
    "Gradient norm": ("update", "gnorm"),
    "Tokens a second": ("update", "rate"),
    "Development nll": ("valid", "nll"),
}
"""Title -> kind of record and its key; `titles` adds the metrics of the development set"""
NO_SCORE = {
    *("kind", "step", "best", "nll", "ppl", "search", "signatures", "seconds"),
    *("sentences", "of_sentences", "empty", "length_ratio"),
}
"""Keys of a validation's record that are no curve of their own"""


@dataclass
class RunLog:
    """The records of one run; those of updates that were repeated after resuming are of the last time."""

    name: str
    directory: Path
    updates: list[dict[str, Any]] = field(default_factory=list)
    valid: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] | None = field(default_factory=dict)
    """In which it was trained; None: env.json is missing or damaged"""

    def series(self, kind: str, key: str) -> Series:
        """The series of a value over the updates."""
        records = self.updates if kind == "update" else self.valid
        points = [(record["step"], value) for record in records if (value := _value(record, key)) is not None]
        return Series(self.name, points)

    @property
    def scores(self) -> list[str]:
        """Names of the scores of the development set's outputs, the main one first."""
        return list(self.valid[-1].get("signatures") or ()) if self.valid else []

    @property
    def metrics(self) -> list[str]:
        """Names of the development set's scores, and of the objective's own values."""
        return [key for key, value in (self.valid[-1] if self.valid else {}).items() if _is_score(key, value)]

    @property
    def best(self) -> dict[str, Any]:
        """The record of the best validation."""
        return next((record for record in reversed(self.valid) if record.get("best")), {})

    @property
    def seconds(self) -> float:
        """Seconds of all updates: the summary's, or the sum over those logged if the run has gone on since."""
        if self.updates and self.summary.get("steps") != self.updates[-1]["step"]:
            return float(sum(record.get("seconds") or 0.0 for record in self.updates))
        return float(self.summary.get("seconds") or 0.0)

    @property
    def n_devices(self) -> int:
        """Number of processes, each with one GPU or with its threads on a CPU."""
        return int(self.known("ranks", int) or 1)

    def known(self, key: str, kind: type[T]) -> T | None:
        """A value of the environment; None where it is not recorded, or of another type."""
        value = (self.environment or {}).get(key)
        return value if isinstance(value, kind) else None

    @property
    def operations(self) -> float:
        """Floating-point operations of forward and backward passes; 0 if those of any update are unknown."""
        counts = [float(record.get("flops") or 0.0) for record in self.updates]
        return sum(counts) if all(counts) else 0.0


def read_log(directory: Path) -> RunLog:
    """The log of a run; lines that were truncated by a crash, or are no record, are skipped, as are values that are
    none."""
    log = RunLog(directory.name, directory, environment=_environment(directory))
    path = directory / "log.jsonl"
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        try:
            record = parse_json(line)
        except ValueError:
            continue
        record = _sound(record) if isinstance(record, dict) else {}
        if not 0 <= record.get("step", -1) < 1 << 53:
            continue
        if record.get("kind") == "update":
            log.updates.append(record)
        elif record.get("kind") == "valid":
            log.valid.append(record)
        elif record.get("kind") == "summary":
            log.summary = record
    return log


def _sound(record: dict[str, Any]) -> dict[str, Any]:
    """The values of a record that are as the log writes them: numbers, but for its kind, signatures and the like."""
    kinds = {"step": int, "kind": str, "signatures": dict, "best": bool}
    return {
        key: value
        for key, value in record.items()
        if (type(value) is kinds[key] if key in kinds else _is_number(value))
    }


def _is_number(value: Any) -> bool:
    """Whether it is a number that a float can hold."""
    return isinstance(value, float) or (type(value) is int and abs(value) < 1 << 1000)


def _environment(directory: Path) -> dict[str, Any] | None:
    """The environment that the run was trained in; None if it is not recorded, or the record is damaged."""
    try:
        record = read_json(directory / "env.json")
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def titles(logs: Sequence[RunLog]) -> dict[str, tuple[str, str]]:
    """Title -> kind of record and key, for all curves of these runs."""
    names = dict.fromkeys(name for log in logs for name in log.metrics)
    return CURVES | {f"Development {name}": ("valid", name) for name in names}


def _value(record: dict[str, Any], key: str) -> float | None:
    if key == "rate":
        seconds = record.get("seconds")
        return record["tokens"] / seconds if seconds and record.get("tokens") else None
    value = record.get(key)
    return float(value) if isinstance(value, int | float) else None


def _is_score(key: str, value: Any) -> bool:
    return key not in NO_SCORE and isinstance(value, int | float) and not isinstance(value, bool)
