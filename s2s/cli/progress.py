"""The progress of a command that takes long."""

from __future__ import annotations

__all__ = ["showing_progress"]

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def showing_progress(quiet: bool) -> Iterator[tuple[Callable[[str], None], float]]:
    """A function that shows progress, and the seconds between its calls: a bar on a terminal, lines elsewhere."""
    console = Console(stderr=True, quiet=quiet)
    if quiet or not console.is_terminal:
        yield (lambda line: None if quiet else print(line, file=sys.stderr, flush=True)), 10.0
        return
    with Progress(BarColumn(20), TextColumn("{task.description}"), TimeElapsedColumn(), console=console) as bar:
        row = bar.add_task("starting", total=None)
        yield (lambda line: bar.update(row, description=line.replace("[", r"\["))), 0.2
        bar.update(row, total=1, completed=1)
