"""A line that says its task: `parse: the cat sleeps`."""

from __future__ import annotations

__all__ = ["parted", "said", "text_of"]

from typing import TYPE_CHECKING

from s2s import DataError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection


def said(task: str, text: str) -> str:
    """The text as a line that says its task."""
    return f"{task}: {text}"


def text_of(line: str, task: str) -> str | None:
    """The text of a line of this task, which need not have a blank before it; None for another's."""
    name, colon, text = line.partition(":")
    return text.removeprefix(" ") if colon and name.strip() == task else None


def parted(line: str, tasks: Collection[str]) -> tuple[str, str]:
    """Task and text of a line; DataError if it says none of these tasks."""
    name, colon, _ = line.partition(":")
    name = name.strip() if colon else ""
    text = text_of(line, name) if name in tasks else None
    if text is None:
        raise DataError(
            f"{line[:60]!r}: an input begins with its task, as in '{said(next(iter(tasks)), '…')}'."
            f"{did_you_mean(name, tasks)}"
        )
    return name, text
