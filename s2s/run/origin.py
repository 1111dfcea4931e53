"""The published model that a run was made of, or tuned from: a record in the run, and files such as its licence."""

from __future__ import annotations

__all__ = ["RECORD", "Origin"]

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from s2s.errors import CheckpointError
from s2s.io.atomic import write_file
from s2s.io.json_files import dump_checked, read_checked

if TYPE_CHECKING:
    from pathlib import Path

RECORD = "published.json"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What is known of the model."""

    title: str
    """What it is, in words, such as MarianMTModel"""
    name: str
    """Of the folder or file; ORG/NAME of a model of the hub"""
    commit: str = ""
    """Of a model of the hub"""
    files: Mapping[str, str]
    """What it was made of: path -> sha256"""
    kept: Sequence[str]
    """Names of the model's files that are in the run, such as its licence and its model card"""
    notes: Sequence[str]
    """How it is decoded, what is put around texts, and what has no counterpart here; a line each"""
    is_tuned: bool = False
    """Whether the run's weights are no longer the model's"""

    @classmethod
    def read(cls, run: Path) -> Origin | None:
        """That of a run; None if it was trained from scratch; raises CheckpointError for a damaged record."""
        path = run / RECORD
        if not os.path.lexists(path):
            return None
        try:
            return cls(**{name: value for name, value in read_checked(path, "sha256").items() if name != "sha256"})
        except (OSError, ValueError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged: {error}") from None

    def write(self, run: Path, kept: Sequence[Path]) -> None:
        """Write the record into a run, with the files that are kept."""
        for file in kept:
            write_file(run / file.name, file.read_bytes())
        write_file(run / RECORD, dump_checked(asdict(self)))

    def tuned(self) -> Origin:
        """That of a run whose weights begin as this one's."""
        return replace(self, is_tuned=True)

    def __str__(self) -> str:
        return f"{self.title}, {self.name}{f'@{self.commit} of the hub' if self.commit else ''}"

    def sentence(self) -> str:
        """What a run's weights have to do with it."""
        how = "were tuned, starting from" if self.is_tuned else "are"
        return f"Its weights {how} those of {self}."

    def lines(self) -> list[tuple[str, str]]:
        """Lines for the first screen under their headings; none of a run that has been tuned."""
        where = "" if self.commit else "".join(f", in {os.path.dirname(file)}" for file in list(self.files)[:1])  # noqa: PTH120
        return [] if self.is_tuned else [("model", f"{self}{where}"), *(("note", note) for note in self.notes)]
