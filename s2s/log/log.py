"""The log of a run: every line, record and warning goes through here, to the screen, train.log and log.jsonl."""

from __future__ import annotations

__all__ = ["JsonLines", "Log", "RunLength", "nonfinite_to_null", "scalars"]

import json
import math
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.io.atomic import write_file
from s2s.io.json_files import parse_json
from s2s.io.own_file import open_own
from s2s.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO

    from s2s.config.run import LogConfig
    from s2s.log.screen import Screen

WARNING = "warning"
"""The topic of a fact that is shown as a warning"""


@dataclass
class RunLength:
    """How far a run goes; a change must be made on every rank, after the same update."""

    n_steps: int
    """Number of the last update: train.steps, unless a time budget has moved it"""
    began: float = field(default_factory=time.monotonic)
    """When the command began, by the monotonic clock"""

    def __post_init__(self) -> None:
        self.planned = self.n_steps
        self._bend = (0, 0.0)
        """The update after which the length was last moved, and its position"""

    def move(self, step: int, n_steps: int) -> None:
        """Let the run end after update `n_steps`, as decided after update `step`."""
        self._bend = step, self.position(step)
        self.n_steps = n_steps

    def position(self, step: int) -> float:
        """The update of the planned run that is as far from its end as `step` is from the end of this one.

        It continues from where it is when the length is moved, so that a learning rate that follows it never goes back.
        """
        since, before = self._bend
        left = self.n_steps - since
        return before + (step - since) * ((self.planned - before) / left) if left > 0 else float(self.planned)


class Log(Observer):
    """Screen, log.jsonl and train.log of one run; silent on all ranks but the first.

    As an observer it keeps a record of every event. Files are written from `start` on, when the step at which the
    run continues is known; earlier lines are written then.
    """

    def __init__(self, directory: Path, config: LogConfig, length: RunLength, screen: Screen, rank: int = 0) -> None:
        self.directory, self.every, self.length = directory, config.every, length
        self.active = rank == 0
        self.screen = screen
        self.jsonl: JsonLines | None = None
        self.text: IO[str] | None = None
        self.step = 0
        self.warned: set[str] = set()
        self.buffered: list[str | Mapping[str, Any]] = []
        """Lines and records before `start`"""

    @property
    def n_steps(self) -> int:
        """The number of the last update, as far as is known now."""
        return self.length.n_steps

    def start(self, step: int) -> None:
        """Open the files; training continues after update `step`."""
        if not self.active:
            return
        self.step = step
        self.jsonl = JsonLines(self.directory / "log.jsonl", step)
        self.text = open_own(self.directory / "train.log", "a", encoding="utf-8")
        early, self.buffered = self.buffered, []
        for item in early:
            self.write(item)

    def is_due(self, step: int) -> bool:
        """Whether an update is shown: every log.every-th, and the last."""
        return step == self.n_steps or (self.every > 0 and step % self.every == 0)

    def show_facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Show each topic and fact on a line, the topic only where it changes; then the warnings among them."""
        shown = [fact for fact in facts if fact[0] != WARNING]
        width = max((len(topic) for topic, _ in shown), default=0)
        for (before, _), (topic, text) in zip([("", ""), *shown], shown, strict=False):
            self.info(f"{'' if topic == before else topic:{width}}  {text}", indent=width + 2)
        for topic, text in facts:
            if topic == WARNING:
                self.warn(text)

    def info(self, text: str, indent: int = 0) -> None:
        """A line that is not about a record; indent: of its continuation lines, if it is wider than the terminal."""
        self.show(text, indent)
        self.screen.record({"kind": "line", "text": text})

    def show(self, text: str, indent: int = 0) -> None:
        """A line for people, such as one about a record, on the screen and in train.log."""
        self.screen.line(text, indent)
        self.write(text)

    def warn(self, text: str) -> None:
        """A warning on standard error, once."""
        if self.active and self._print_warning(text):
            self.write(f"warning: {text}")
            self._record({"kind": "warning", "step": self.step, "text": text})

    def updated(self, record: Mapping[str, Any]) -> None:
        """Step, loss, the objective's extras, lr, gnorm, tokens and whatever else is worth keeping."""
        self.step = record["step"]
        self._record({"kind": "update", **record}, show=self.is_due(self.step))

    def validated(self, record: Mapping[str, Any]) -> None:
        """Step, scores, whether it is the best."""
        self._record({"kind": "valid", **record})

    def saved(self, path: Path, seconds: float) -> None:
        """The newest step, the path, and how long it took."""
        self._record({"kind": "saved", "step": self.step, "path": self.relative_path(path), "seconds": seconds})

    def finished(self, summary: Mapping[str, Any]) -> None:
        """The summary."""
        self._record({"kind": "summary", "step": self.step, **summary})

    def write(self, item: str | Mapping[str, Any]) -> None:
        """A line for train.log alone, or a record for log.jsonl alone."""
        if not self.active:
            return
        if self.jsonl is None or self.text is None:
            self.buffered.append(item)
            return
        with self.tolerating_full_disk():
            if isinstance(item, str):
                self.text.write(f"{item}\n")
                self.text.flush()
            else:
                self.jsonl.write(item)

    def records(self, kind: str) -> Iterator[dict[str, Any]]:
        """All records of one kind, oldest first, those before a resume included."""
        return self.jsonl.records(kind) if self.jsonl else iter(())

    def relative_path(self, path: Path | str) -> str:
        """A path as lines and records have it: relative to the run's directory, where it is in there."""
        path = Path(path)
        return str(path.relative_to(self.directory) if path.is_relative_to(self.directory) else path)

    def close(self, error: BaseException | None = None) -> None:
        """Close screen and files."""
        self.screen.close()
        for file in (self.jsonl, self.text):
            if file is not None:
                with suppress(OSError):  # reported when it was written
                    file.close()
        self.jsonl = self.text = None

    def _record(self, record: Mapping[str, Any], *, show: bool = True) -> None:
        if self.active and show:
            self.screen.record(record)
        self.write(record)

    @contextmanager
    def tolerating_full_disk(self) -> Iterator[None]:
        """A full disk does not end training; the warning goes to standard error, as the log cannot be written."""
        try:
            yield
        except OSError as error:
            self._print_warning(f"the log cannot be written, training goes on: {error}")

    def _print_warning(self, text: str) -> bool:
        """Print a warning if it is new; returns whether it is."""
        if is_new := text not in self.warned:
            self.warned.add(text)
            print(f"warning: {text}", file=sys.stderr, flush=True)
        return is_new


class JsonLines:
    """A file of records, each flushed; a line that a crash or a full disk cut short is no record."""

    def __init__(self, path: Path, step: int) -> None:
        """Continue after update `step`: records of later updates, which are trained again, are dropped."""
        self.path = path
        write_file(path, b"".join(line + b"\n" for line, record in _lines(path) if record["step"] <= step))
        self.file = open_own(path, "ab")
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
