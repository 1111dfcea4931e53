"""What a prepared folder is made from, and the manifest in it that remembers this."""

from __future__ import annotations

__all__ = ["MANIFEST", "Manifest", "Recipe"]

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from s2s.config import DataConfig
from s2s.data.encoding import CorpusReport, Limits
from s2s.data.files import expanded
from s2s.data.inputs import Stamp
from s2s.task import Task

FORMAT = 1
MANIFEST = "manifest.json"
SPLITS = ("train", "valid")


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes a prepared folder."""

    task: Task
    config: DataConfig

    @cached_property
    def files(self) -> list[Path]:
        """The input files."""
        return sorted({Path(file) for file in self.task.sources().files})

    @cached_property
    def corpora(self) -> list[tuple[str, str, float]]:
        """Split, name and weight of every corpus."""
        return [(split, *corpus) for split in SPLITS for corpus in self.task.corpora(split)]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All that shapes the result beside the contents of the files; a weight only says how it is used."""
        return {
            "format": FORMAT,
            "task": self.task.config.name,
            "options": self.task.sources().settings,
            "files": [str(file) for file in self.files],
            "corpora": [[split, name] for split, name, _ in self.corpora],
            "max_len": self.config.max_len,
            "max_ratio": self.config.max_ratio,
        }

    @cached_property
    def directory(self) -> Path:
        """Where the result lies: a folder for each set of settings."""
        said = json.dumps(self.settings, sort_keys=True, default=str)
        key = hashlib.sha256(said.encode()).hexdigest()[:12]
        return expanded(self.config.prepared, "data.prepared") / f"{self.task.config.name or 'task'}-{key}"

    def limits(self, split: str) -> Limits:
        """What is dropped; of a development set only what is empty, lest its score change with an option."""
        return Limits(self.config.max_len, self.config.max_ratio) if split == "train" else Limits()


@dataclass(frozen=True)
class Manifest:
    """What a prepared folder was made from, and what it holds."""

    settings: dict[str, Any]
    made: float
    """Seconds since 1970, for people only"""
    inputs: dict[str, Stamp]
    outputs: dict[str, Stamp]
    """By their paths in the folder"""
    reports: list[CorpusReport]

    def dump(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self), indent=1, default=str).encode() + b"\n"

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The manifest of a folder; KeyError, TypeError or ValueError if it is damaged."""
        said = json.loads((directory / MANIFEST).read_bytes())
        inputs, outputs = ({name: Stamp(**s) for name, s in said[key].items()} for key in ("inputs", "outputs"))
        reports = [CorpusReport(**report) for report in said["reports"]]
        return cls(said["settings"], said["made"], inputs, outputs, reports)
