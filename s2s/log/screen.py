"""What a run shows: plain lines, the same above a live line on a terminal, or JSON for programs."""

from __future__ import annotations

__all__ = ["Screen", "choose_screen"]

import json
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from s2s.log.files import finite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.log.lines import UpdateLine

REDRAW = 1.0
"""Seconds between two drawings of the live line"""


class Screen:
    """Plain lines, one every log.every updates."""

    live = False
    """Whether it takes every update, not only those that are due for a line."""

    def line(self, text: str, indent: int = 0) -> None:
        """Text for people; indent: of the lines that follow, where a terminal breaks it."""
        print(text, flush=True)

    def update(self, line: UpdateLine, due: bool) -> None:
        """Where the run stands; `due` every log.every updates."""
        if due:
            self.line(str(line))

    def record(self, record: Mapping[str, Any]) -> None:
        """The same for programs, as in log.jsonl."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class QuietScreen(Screen):
    """Nothing; warnings go to standard error, whatever the screen."""

    def line(self, text: str, indent: int = 0) -> None:
        pass


class JsonScreen(QuietScreen):
    """The records of log.jsonl, and other lines as records of their own."""

    def record(self, record: Mapping[str, Any]) -> None:
        print(json.dumps(finite(record)), flush=True)


class LiveScreen(Screen):
    """Plain lines, and below them one that is redrawn at most once a second."""

    live = True

    def __init__(self, console: Console) -> None:
        self.console = console
        to_terminal = sys.stderr.isatty()  # elsewhere, warnings must not be drawn
        self.drawing = Live(console=console, auto_refresh=False, transient=True, redirect_stderr=to_terminal)
        self.drawn_at = -REDRAW

    def line(self, text: str, indent: int = 0) -> None:
        if indent:
            hanging = " " * indent
            text = textwrap.fill(
                text, self.console.width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
            )
        self.console.print(Text(text), soft_wrap=True)

    def update(self, line: UpdateLine, due: bool) -> None:
        now = time.monotonic()
        if now - self.drawn_at < REDRAW and line.step < line.n_steps:
            return
        self.drawn_at = now
        if not self.drawing.is_started:
            self.drawing.start()
        text = Text(line.fitting(self.console.width), no_wrap=True, overflow="ellipsis")
        text.highlight_words(["━"], "green")
        self.drawing.update(text, refresh=True)

    def close(self) -> None:
        self.drawing.stop()


def choose_screen(form: str, quiet: bool) -> Screen:
    """The screen for `log.format`, the flags, and what standard output is."""
    if quiet:
        return QuietScreen()
    if form == "json":
        return JsonScreen()
    console = Console(highlight=False)
    return LiveScreen(console) if console.is_terminal and not console.is_dumb_terminal else Screen()
