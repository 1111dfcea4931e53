"""One job: what it is of, how far it is, and why it has failed; job.json records it with its checksum."""

from __future__ import annotations

__all__ = ["Job", "Lines", "reason_of"]

import hashlib
import re
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from s2s import UserError
from s2s_serve.generating import TextOptions

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
"""The types of a record are those that were written"""


class Lines(BaseModel):
    """The whole of a file, or its first lines: how many, and their size and sha256."""

    model_config = STRICT

    n_lines: int = Field(default=0, ge=0)
    n_bytes: int = Field(default=0, ge=0)
    sha256: str = hashlib.sha256().hexdigest()


class Job(BaseModel):
    """A file being processed."""

    model_config = STRICT

    id: str
    run: str
    split: bool
    raw: bool
    made_of: dict[str, Any]
    """What the outputs depend on beside the input, see `LoadedGenerator`"""
    input_fields: dict[str, Any]
    """Fields of each line that the task reads"""
    created: float = Field(default_factory=time.time)
    input: Lines = Lines()
    output: Lines = Lines()
    """The lines that are done; the file may have a part of others"""
    n_failed: int = Field(default=0, ge=0)
    """Lines without an output; their output lines are empty"""
    refusal: str = ""
    """Why the first line without an output has none"""
    deleted: bool = Field(default=False, exclude=True)
    error: str = Field(default="", exclude=True)
    """Why it cannot be processed; not recorded: the next start of the server tries again"""

    @property
    def options(self) -> TextOptions:
        """How each line is read."""
        return TextOptions(split=self.split, raw=self.raw, fields=self.input_fields)

    @property
    def is_done(self) -> bool:
        """Whether each line has its output line."""
        return self.output.n_lines == self.input.n_lines

    @property
    def failure(self) -> str:
        """Why it has failed: it cannot be processed, or none of its lines has an output; empty: it has not."""
        if self.error or self.n_failed < self.input.n_lines:
            return self.error
        return ": ".join(filter(None, ["no line has an output", self.refusal]))

    def state(self) -> dict[str, Any]:
        """The state reported to clients."""
        n_done, failure = self.output.n_lines, self.failure
        state = "failed" if failure else "done" if self.is_done else "running" if n_done else "waiting"
        progress = {"lines": self.input.n_lines, "done": n_done, "failed": self.n_failed}
        error = {"error": failure} if failure else {}
        return {"id": self.id, "run": self.run, "state": state, **progress, **error}


def reason_of(error: Exception) -> str:
    """Why a job has failed; of its files, only the names."""
    if isinstance(error, UserError):
        return re.sub(r"\S*/", "", str(error))
    if not isinstance(error, OSError):
        return "a bug of the server, which has logged it"
    return ": ".join(filter(None, [Path(error.filename or "").name, error.strerror or str(error)]))
