"""A job of a study as it is stored, and its result."""

from __future__ import annotations

__all__ = ["Job", "anywhere", "scores_of", "text_hash"]

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from s2s import DataError
from s2s.io import read_manifest, write_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.metrics import Metric


@dataclass(frozen=True)
class Job:
    """The work of one process: train, unless it is an ensemble, then decode and score. Stored as JSON."""

    name: str
    row: str
    seed: int
    train: list[str]
    """Arguments of s2s-train; none for an ensemble"""
    runs: list[str]
    """Run directories to decode with"""
    evaluate: dict[str, Any]
    """The options of `EvaluateConfig`"""
    samples: int
    plugins: list[str]
    tflops: float | None
    steps: int
    """train.steps of the whole run"""
    needs: list[str] = field(default_factory=list)
    """Names of jobs that must have succeeded before this one starts"""
    commands: list[str] = field(default_factory=list)
    """Run instead of training and decoding; `train` then only names the configuration of the task"""

    @property
    def identity(self) -> str:
        """Equal for jobs with the same result, wherever the study lies."""
        facts = {**asdict(self), "row": ""}
        if not self.commands:
            del facts["commands"]  # so that results written by an earlier version stay valid
        study = Path(self.runs[0]).parent.parent
        return text_hash(anywhere(json.dumps(facts, sort_keys=True), json.dumps(str(study))[1:-1]))

    def write(self, folder: Path) -> Path:
        """Write the job to its file in `folder`, unless it is unchanged; the file."""
        path = folder / f"{self.name}.json"
        try:
            is_written = self.read(path) == self
        except DataError:
            is_written = False
        if not is_written:
            write_manifest(path, asdict(self))
        return path

    @classmethod
    def read(cls, path: Path) -> Self:
        """The job in a file; raises DataError if it is damaged."""
        try:
            facts = read_manifest(path)
            return cls(**{name: value for name, value in facts.items() if name != "files"})
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{path}: no job of s2s-study ({error}); run s2s-study, which writes it again") from None

    def result(self, folder: Path) -> dict[str, Any] | None:
        """The job's result; None if it is not finished or damaged, or if it belongs to a different job."""
        try:
            stored = read_manifest(self.result_path(folder))
        except (OSError, ValueError):
            return None
        return stored if stored.get("identity") == self.identity else None

    def damage(self, folder: Path) -> str:
        """What is wrong with the file of the job's result; empty if there is none, or nothing wrong."""
        try:
            read_manifest(self.result_path(folder))
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            return str(error)
        return ""

    def result_path(self, folder: Path) -> Path:
        """The file of the result."""
        return folder / f"{self.name}.result.json"

    def outputs_path(self, folder: Path) -> Path:
        """The file of the decoded outputs, which the result describes."""
        return folder / f"{self.name}.outputs.txt"


def anywhere(text: str, study: str) -> str:
    """A text that names files in the folder of a study, as it is for all places where that folder may lie."""
    return text.replace(f"{study}/", "{output}/")


def text_hash(text: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def scores_of(
    metrics: Iterable[Metric], hyps: Sequence[str], refs: Sequence[str], samples: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """Name -> value, and name -> interval, signature and direction, as in a job's result."""
    scores = [metric.scored(hyps, [refs], samples) for metric in metrics]
    facts = ("low", "high", "signature", "higher_is_better")
    return {s.name: s.value for s in scores}, {s.name: {fact: getattr(s, fact) for fact in facts} for s in scores}
