"""One place through which a run speaks."""

from __future__ import annotations

__all__ = ["Log"]

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from s2s.log.journal import Board, Journal
from s2s.log.lines import Means, UpdateLine, duration, scores, short, valid_line
from s2s.log.screen import choose_screen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s.config import LogConfig


class Log:
    """Screen, log.jsonl, train.log and TensorBoard of one run; ranks other than the first say nothing.

    Files are written from `start` on, when it is known where the run continues; what was said before follows.
    """

    def __init__(self, directory: Path, config: LogConfig, n_steps: int, *, quiet: bool = False, rank: int = 0) -> None:
        self.directory = directory
        self.config = config
        self.n_steps = n_steps
        self.speaks = rank == 0
        self.screen = choose_screen(config.format, quiet or not self.speaks)
        self.journal: Journal | None = None
        self.text: IO[str] | None = None
        self.board: Board | None = None
        self.step = 0
        self.means = Means(max(config.every, 1))
        self.mark = time.monotonic()
        self.warned: set[str] = set()
        self.early: list[str] = []
        self.early_records: list[Mapping[str, Any]] = []
        self.pending: Mapping[str, Any] | None = None

    def start(self, step: int, extras: Sequence[str] = ("nll",)) -> None:
        """Open the files; training goes on after update `step`, whose records have these `extras` of the objective."""
        self.means.extras = extras
        if not self.speaks:
            return
        self.step, self.mark = step, time.monotonic()
        self.journal = Journal(self.directory / "log.jsonl", step)
        self.text = (self.directory / "train.log").open("a", encoding="utf-8")
        if self.config.tensorboard:
            self.board = Board(self.directory / "tensorboard", step)
        for line in self.early:
            self._write(line)
        for record in self.early_records:
            self._record(record, show=False)
        self.early, self.early_records = [], []

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """The first screen: one line each, what it is about in front where that changes."""
        width = max((len(about) for about, _ in facts), default=0)
        before = ""
        for about, text in facts:
            self.line(f"{'' if about == before else about:{width}}  {text}")
            before = about

    def line(self, text: str) -> None:
        """Say something that stays."""
        if self.speaks:
            self._settle()
            self.screen.line(text)
            self._write(text)

    def warn(self, text: str) -> None:
        """Say on standard error what is wrong, once."""
        if not self.speaks or text in self.warned:
            return
        self._settle()
        self.warned.add(text)
        print(f"warning: {text}", file=sys.stderr, flush=True)
        self._write(f"warning: {text}")
        self._record({"kind": "warning", "step": self.step, "text": text}, show=True)

    def update(self, record: Mapping[str, Any]) -> None:
        """One update: step, loss, the objective's extras, lr, gnorm, tokens, …"""
        if not self.speaks:
            return
        self._settle()
        now = time.monotonic()
        self.means.add(now - self.mark, record)
        self.mark, self.step = now, record["step"]
        due = self.step == self.n_steps or (self.config.every > 0 and self.step % self.config.every == 0)
        self._record({"kind": "update", **record}, show=due)
        if not due and not self.screen.lively:
            return
        line = UpdateLine.of(record, self.n_steps, self.means)
        self.screen.update(line, due)
        if due:
            self._write(str(line))
            self._plot("train", {**record, "tokens_per_second": self.means.speed()})

    def valid(self, record: Mapping[str, Any]) -> None:
        """One validation: step, scores, whether it is the best; shown with the checkpoint that follows."""
        if not self.speaks:
            return
        self._settle()
        self.pending = record
        self.mark = time.monotonic()  # its time is no update's
        self._record({"kind": "valid", **record}, show=True)
        self._plot("valid", record)

    def saved(self, path: Path, seconds: float) -> None:
        """A checkpoint is on the disk, and verified."""
        if not self.speaks:
            return
        shown = self._shown(path)
        self._settle(f"saved {shown} ({seconds:.1f} s, verified)")
        self.mark = time.monotonic()
        self._record({"kind": "saved", "step": self.step, "path": str(shown), "seconds": seconds}, show=True)

    def summary(self, record: Mapping[str, Any], next_command: str) -> None:
        """What came of the run, and what to type next."""
        if not self.speaks:
            return
        self._settle()
        self._record({"kind": "summary", "step": self.step, **record}, show=True)
        n_tokens = short(record["tokens"])
        self._say(f"done  {record['steps']:,} updates, {n_tokens} symbols, {duration(record['seconds'])}")
        best = [r for r in (self.journal.records("valid") if self.journal else ()) if r.get("best")]
        if best:
            self._say(f"best  {valid_line({**best[-1], 'best': False})}")
            for name, signature in best[-1].get("signatures", {}).items():
                self._say(f"      {name}: {signature}")
        if record.get("average"):
            self._say(
                "  ".join(["mean", *scores(record["average"]), f"saved {self._shown(record['average']['path'])}"])
            )
        self._say(f"next  {next_command}")

    def close(self) -> None:
        """Show what is still held back, and close the files."""
        self._settle()
        self.screen.close()
        for file in (self.journal, self.text, self.board):
            if file is not None:
                with suppress(OSError):  # said when it was written
                    file.close()
        self.journal = self.text = self.board = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _shown(self, path: Path | str) -> Path:
        """A path inside the run, without the run's own."""
        return Path(path).relative_to(self.directory) if Path(path).is_relative_to(self.directory) else Path(path)

    def _settle(self, saved: str = "") -> None:
        """Show the validation that waits for its checkpoint, if any; else the checkpoint alone."""
        record, self.pending = self.pending, None
        text = valid_line(record, saved) if record else saved
        if text:
            self._say(text)

    def _say(self, text: str) -> None:
        """A line that puts a record into words."""
        if self.config.format != "json":  # there, the record has said it
            self.screen.line(text)
        self._write(text)

    def _write(self, text: str) -> None:
        if self.text is None:
            self.early.append(text)
            return
        try:
            self.text.write(text + "\n")
            self.text.flush()
        except OSError as error:
            self._full(error)

    def _record(self, record: Mapping[str, Any], *, show: bool) -> None:
        if show:
            self.screen.record(record)
        if self.journal is None:
            self.early_records.append(record)
            return
        try:
            self.journal.write(record)
        except OSError as error:
            self._full(error)

    def _plot(self, group: str, record: Mapping[str, Any]) -> None:
        try:
            if self.board:
                self.board.write(group, record)
        except OSError as error:
            self._full(error)

    def _full(self, error: OSError) -> None:
        """A full disk ends no training; this goes to the screen only, since the files cannot take it."""
        text = f"the log cannot be written, training goes on: {error}"
        if text not in self.warned:
            self.warned.add(text)
            print(f"warning: {text}", file=sys.stderr, flush=True)
