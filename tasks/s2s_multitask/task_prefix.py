"""The name of the task as a prefix of a line: `parse: the cat sleeps`."""

from __future__ import annotations

__all__ = ["add_prefix", "split_prefix", "text_of"]

from typing import TYPE_CHECKING

from s2s import DataError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection


def add_prefix(task: str, text: str) -> str:
    """The text with its task's name before it."""
    return f"{task}: {text}"


def text_of(line: str, task: str) -> str | None:
    """The text of a line of this task, the blank after the colon being optional; None for a line of another task."""
    name, colon, text = line.partition(":")
    return text.removeprefix(" ") if colon and name.strip() == task else None


def split_prefix(line: str, tasks: Collection[str]) -> tuple[str, str]:
    """Task and text of a line; raises DataError if it begins with none of these tasks."""
    name, colon, _ = line.partition(":")
    name = name.strip() if colon else ""
    text = text_of(line, name) if name in tasks else None
    if text is None:
        raise DataError(
            f"{line[:60]!r}: an input begins with its task, as in '{add_prefix(next(iter(tasks)), '…')}'."
            f"{did_you_mean(name, tasks)}"
        )
    return name, text
