"""The three screens: a terminal with a live line, plain lines for files and pipes, JSON for programs."""

from __future__ import annotations

__all__ = ["JsonScreen", "LiveScreen", "PlainScreen", "Screen", "choose_screen"]

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from s2s.log.journal import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.log.lines import UpdateLine

REDRAW = 1.0
"""Seconds between two pictures of the live line"""


class Screen(Protocol):
    """What the user sees of a run."""

    lively: bool
    """Wants to see every update, not only those that are due for a line."""

    def line(self, text: str) -> None:
        """A line that stays."""
        ...

    def update(self, line: UpdateLine, due: bool) -> None:
        """Where the run stands; `due` every log.every updates."""
        ...

    def record(self, record: Mapping[str, Any]) -> None:
        """What the journal gets."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


class PlainScreen:
    """One line every log.every updates."""

    lively = False

    def line(self, text: str) -> None:
        print(text, flush=True)

    def update(self, line: UpdateLine, due: bool) -> None:
        if due:
            self.line(str(line))

    def record(self, record: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


class JsonScreen:
    """The records of the journal, and every other line as a record of its own."""

    lively = False

    def line(self, text: str) -> None:
        self.record({"kind": "line", "text": text})

    def update(self, line: UpdateLine, due: bool) -> None:
        pass

    def record(self, record: Mapping[str, Any]) -> None:
        print(json.dumps(plain(record)), flush=True)

    def close(self) -> None:
        pass


class QuietScreen(PlainScreen):
    """Nothing; warnings go to standard error, whatever the screen."""

    def line(self, text: str) -> None:
        pass


class LiveScreen:
    """Lines that stay, and below them one that moves, drawn at most once a second."""

    lively = True

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live: Live | None = None
        self.drawn_at = -REDRAW

    def line(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def update(self, line: UpdateLine, due: bool) -> None:
        now = time.monotonic()
        if now - self.drawn_at < REDRAW and line.step < line.n_steps:
            return
        self.drawn_at = now
        if self.live is None:
            to_terminal = sys.stderr.isatty()  # elsewhere, warnings must not land in the picture
            self.live = Live(console=self.console, auto_refresh=False, transient=True, redirect_stderr=to_terminal)
            self.live.start()
        self.live.update(_picture(line), refresh=True)

    def record(self, record: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None


def choose_screen(form: str, quiet: bool) -> Screen:
    """The screen for `log.format`, the flags, and what standard output is."""
    if quiet:
        return QuietScreen()
    if form == "json":
        return JsonScreen()
    console = Console(highlight=False)
    return LiveScreen(console) if console.is_terminal and not console.is_dumb_terminal else PlainScreen()


def _picture(line: UpdateLine) -> Table:
    picture = Table.grid(padding=(0, 1))
    picture.add_column(no_wrap=True)
    picture.add_column(width=20)
    picture.add_column(no_wrap=True, overflow="ellipsis")
    bar = ProgressBar(total=max(line.n_steps, 1), completed=line.step)
    picture.add_row(Text(line.head), bar, Text(f"{line.percent}  {line.tail}"))
    return picture
