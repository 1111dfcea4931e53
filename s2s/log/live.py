"""A line that is redrawn below the plain ones, on a terminal."""

from __future__ import annotations

__all__ = ["LiveScreen", "fitting", "live_screen"]

import sys
import textwrap
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from s2s.log.lines import GAP
from s2s.log.screen import Screen

if TYPE_CHECKING:
    from s2s.log.lines import UpdateLine
    from s2s.registry import Choice

REDRAW = 1.0
"""Seconds between two drawings of the live line"""
SHORTEST_BAR, LONGEST_BAR = 8, 20
"""Columns"""


def live_screen(config: Choice) -> Screen:  # noqa: ARG001  it has no options
    """A live screen on a terminal, else plain lines."""
    console = Console(highlight=False)
    return LiveScreen(console) if console.is_terminal and not console.is_dumb_terminal else Screen()


class LiveScreen(Screen):
    """Plain lines, and below them one that is redrawn at most once a second."""

    def __init__(self, console: Console) -> None:
        self.console = console
        to_terminal = sys.stderr.isatty()  # otherwise warnings must not be drawn
        self.drawing = Live(console=console, auto_refresh=False, transient=True, redirect_stderr=to_terminal)
        self.drawn_at = -REDRAW

    def line(self, text: str, indent: int = 0) -> None:
        if indent:
            hanging = " " * indent
            text = textwrap.fill(
                text, self.console.width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
            )
        self.console.print(Text(text), soft_wrap=True)

    def is_due(self) -> bool:
        """Whether the live line was drawn long enough ago."""
        return time.monotonic() - self.drawn_at >= REDRAW

    def draw(self, line: UpdateLine) -> None:
        """Draw the progress of the run."""
        if not self.is_due() and line.step < line.n_steps:
            return
        self.drawn_at = time.monotonic()
        if not self.drawing.is_started:
            self.drawing.start()
        text = Text(fitting(line, self.console.width), no_wrap=True, overflow="ellipsis")
        text.highlight_words(["━"], "green")
        self.drawing.update(text, refresh=True)

    def close(self) -> None:
        self.drawing.stop()


def fitting(line: UpdateLine, width: int) -> str:
    """The line cut to `width` columns: fields by rank, and a bar if there is room left."""
    chosen = {field for field in line.fields if field[0] == 0}
    n_taken = sum(len(GAP + text) for _, text in chosen)
    head = line.head if len(line.head) + n_taken <= width else f"{line.step:,}/{line.n_steps:,}"
    room = width - len(head) - n_taken
    for field in sorted(set(line.fields) - chosen):
        if len(GAP + field[1]) <= room:
            chosen.add(field)
            room -= len(GAP + field[1])
    bar = _bar(line, min(room - len(GAP), LONGEST_BAR))
    shown = [text for rank, text in line.fields if (rank, text) in chosen]
    return GAP.join([head, *([bar] if bar else []), *shown])


def _bar(line: UpdateLine, length: int) -> str:
    """A progress bar of `length` columns; empty if it would be too short to read."""
    if length < SHORTEST_BAR:
        return ""
    n_full = length * line.step // max(line.n_steps, 1)
    return "━" * n_full + "╌" * (length - n_full)
