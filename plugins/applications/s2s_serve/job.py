"""One job: what it is of, how far it is, and why it has failed; job.json has its fields."""

from __future__ import annotations

__all__ = ["Job", "count_written", "reason_of", "recorded"]

import json
import logging
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from s2s import UserError
from s2s_serve.generating import TextOptions

logger = logging.getLogger(__name__)


@dataclass
class Job:
    """A file being processed."""

    id: str
    run: str
    split: bool
    raw: bool
    n_lines: int = 0
    n_done: int = field(default=0, compare=False)
    n_bytes: int = field(default=0, compare=False)
    """Size of the output lines that are done; the file may have a part of another"""
    n_failed: int = 0
    """Lines without an output; their output lines are empty"""
    deleted: bool = False
    made_of: dict[str, Any] = field(default_factory=dict)
    """What the outputs depend on beside the input, see `LoadedGenerator`; empty: not recorded by an earlier version"""
    error: str = ""
    """Why it cannot be processed; not recorded: the next start of the server tries again"""
    input_fields: dict[str, Any] = field(default_factory=dict)
    """Fields of each line that the task reads"""
    refusal: str = ""
    """Why the first line without an output has none"""

    @property
    def options(self) -> TextOptions:
        """How each line is read."""
        return TextOptions(split=self.split, raw=self.raw, fields=self.input_fields)

    @property
    def failure(self) -> str:
        """Why it has failed: it cannot be processed, or none of its lines has an output; empty: it has not."""
        if self.error or self.n_failed < self.n_lines:
            return self.error
        return ": ".join(filter(None, ["no line has an output", self.refusal]))

    def state(self) -> dict[str, Any]:
        """The state reported to clients."""
        done, failure = self.n_done >= self.n_lines, self.failure
        state = "failed" if failure else "done" if done else "running" if self.n_done else "waiting"
        progress = {"lines": self.n_lines, "done": self.n_done, "failed": self.n_failed}
        error = {"error": failure} if failure else {}
        return {"id": self.id, "run": self.run, "state": state, **progress, **error}


def count_written(output: Path) -> tuple[int, int]:
    """The whole lines of an output, and their bytes; a server that was killed may have left a part of another."""
    n_lines = n_bytes = 0
    if output.exists():
        with output.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    n_lines, n_bytes = n_lines + 1, n_bytes + len(line)
    return n_lines, n_bytes


def recorded(path: Path) -> Job | None:
    """The job that job.json records; None, with a warning, if the file is damaged: then all files stay as they are."""
    try:
        job = Job(**json.loads(path.read_bytes()))
        if job.id == path.parent.name:
            return job
        reason = f"its id is {job.id!r}"
    except (OSError, TypeError, ValueError) as error:
        reason = str(error)
    logger.warning("%s is damaged, so that this job is left out: %s", path, reason)
    return None


def reason_of(error: Exception) -> str:
    """Why a job has failed; of its files, only the names."""
    if isinstance(error, UserError):
        return re.sub(r"\S*/", "", str(error))
    if not isinstance(error, OSError):
        return "a bug of the server, which has logged it"
    return ": ".join(filter(None, [Path(error.filename or "").name, error.strerror or str(error)]))
