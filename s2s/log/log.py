"""The log of a run: every line, record and warning goes through here."""

from __future__ import annotations

__all__ = ["Log"]

import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from s2s.config.duration import duration_text
from s2s.log.files import JsonLines
from s2s.log.lines import MovingMeans, UpdateLine, scores, short, valid_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO

    from s2s.config import LogConfig
    from s2s.log.screen import Screen


class Log:
    """Screen, log.jsonl and train.log of one run; silent on all ranks but the first.

    Files are written from `start` on, when the step at which the run continues is known; earlier lines follow then.
    """

    def __init__(self, directory: Path, config: LogConfig, n_steps: int, screen: Screen, rank: int = 0) -> None:
        self.directory, self.config, self.n_steps = directory, config, n_steps
        self.active = rank == 0
        self.screen = screen
        self.jsonl: JsonLines | None = None
        self.text: IO[str] | None = None
        self.step = 0
        self.means = MovingMeans(max(config.every, 1))
        self.mark = time.monotonic()
        """When the last update, validation or checkpoint ended"""
        self.warned: set[str] = set()
        self.early: list[str | Mapping[str, Any]] = []
        """Lines and records before `start`"""
        self.pending: Mapping[str, Any] | None = None
        """A validation whose line is shown with the checkpoint that follows"""

    def start(self, step: int, extras: Sequence[str] = ("nll",)) -> None:
        """Open the files; training continues after update `step`. extras: names of the objective's extra values."""
        self.means.extras = extras
        if not self.active:
            return
        self.step, self.mark = step, time.monotonic()
        self.jsonl = JsonLines(self.directory / "log.jsonl", step)
        self.text = (self.directory / "train.log").open("a", encoding="utf-8")
        early, self.early = self.early, []
        for item in early:
            self._write(item)

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """The first screen: a topic and a fact in each line; the topic where it changes."""
        width = max((len(topic) for topic, _ in facts), default=0)
        for (before, _), (topic, text) in zip([("", ""), *facts], facts, strict=False):
            self.line(f"{'' if topic == before else topic:{width}}  {text}", indent=width + 2)

    def line(self, text: str, indent: int = 0) -> None:
        """A line that is not about a record; indent: of its other lines, where it is wider than the terminal."""
        self._flush()
        self._show(text, indent)
        self.screen.record({"kind": "line", "text": text})

    def warn(self, text: str) -> None:
        """A warning on standard error, once."""
        if not self.active or text in self.warned:
            return
        self._flush()
        self.warned.add(text)
        print(f"warning: {text}", file=sys.stderr, flush=True)
        self._write(f"warning: {text}")
        self._record({"kind": "warning", "step": self.step, "text": text})

    def update(self, record: Mapping[str, Any]) -> None:
        """One update: step, loss, the objective's extras, lr, gnorm, tokens and whatever else is worth keeping."""
        if not self.active:
            return
        self._flush()
        now = time.monotonic()
        self.means.add(now - self.mark, record)
        self.mark, self.step = now, record["step"]
        due = self.step == self.n_steps or (self.config.every > 0 and self.step % self.config.every == 0)
        self._record({"kind": "update", **record}, show=due)
        if due or self.screen.live:
            line = UpdateLine.of(record, self.n_steps, self.means)
            self.screen.update(line, due)
        if due:
            self._write(str(line))

    def valid(self, record: Mapping[str, Any]) -> None:
        """One validation: step, scores, whether it is the best."""
        if not self.active:
            return
        self._flush()
        self.pending = record
        self.mark = time.monotonic()  # its time does not count as an update's
        self._record({"kind": "valid", **record})

    def saved(self, path: Path, seconds: float) -> None:
        """A checkpoint is on the disk, and verified."""
        shown = self._relative(path)
        self._flush(f"saved {shown} ({seconds:.1f} s, verified)")
        self.mark = time.monotonic()
        self._record({"kind": "saved", "step": self.step, "path": str(shown), "seconds": seconds})

    def summary(self, record: Mapping[str, Any], next_command: str) -> None:
        """The result of the run, and the command to continue with."""
        if not self.active:
            return
        self._flush()
        self._record({"kind": "summary", "step": self.step, **record})
        self._show(
            f"done  {record['steps']:,} updates, {short(record['tokens'])} tokens, {duration_text(record['seconds'])}"
        )
        best = [r for r in (self.jsonl.records("valid") if self.jsonl else ()) if r.get("best")]
        if best:
            self._show(f"best  {valid_line({**best[-1], 'best': False})}")
            for name, signature in best[-1].get("signatures", {}).items():
                self._show(f"      {name}: {signature}")
        if average := record.get("average"):
            self._show("  ".join(["mean", *scores(average), f"saved {self._relative(average['path'])}"]))
        self._show(f"next  {next_command}")

    def close(self) -> None:
        """Show a pending validation, and close the files."""
        self._flush()
        self.screen.close()
        for file in (self.jsonl, self.text):
            if file is not None:
                with suppress(OSError):  # reported when it was written
                    file.close()
        self.jsonl = self.text = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _relative(self, path: Path | str) -> Path:
        """A path in the run directory, relative to it."""
        return Path(path).relative_to(self.directory) if Path(path).is_relative_to(self.directory) else Path(path)

    def _flush(self, saved: str = "") -> None:
        """Show the pending validation, with its checkpoint, or the checkpoint alone."""
        record, self.pending = self.pending, None
        if text := valid_line(record, saved) if record else saved:
            self._show(text)

    def _show(self, text: str, indent: int = 0) -> None:
        """A line for people, on the screen and in train.log."""
        self.screen.line(text, indent)
        self._write(text)

    def _record(self, record: Mapping[str, Any], *, show: bool = True) -> None:
        if show:
            self.screen.record(record)
        self._write(record)

    def _write(self, item: str | Mapping[str, Any]) -> None:
        """A line to train.log, a record to log.jsonl."""
        if not self.active:
            return
        if self.jsonl is None or self.text is None:
            self.early.append(item)
            return
        with self.surviving():
            if isinstance(item, str):
                self.text.write(f"{item}\n")
                self.text.flush()
            else:
                self.jsonl.write(item)

    @contextmanager
    def surviving(self) -> Iterator[None]:
        """A full disk ends no training; the warning goes to standard error only, since the files cannot take it."""
        try:
            yield
        except OSError as error:
            text = f"the log cannot be written, training goes on: {error}"
            if text not in self.warned:
                self.warned.add(text)
                print(f"warning: {text}", file=sys.stderr, flush=True)
