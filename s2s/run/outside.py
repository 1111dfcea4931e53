"""Files that a run names outside of the working folder and its own.

A run that others made may name any file of its user's. A command that is given a run reads its corpora only if they are
here, or if the user says so: what it shows of them, such as a report, is passed on.
"""

from __future__ import annotations

__all__ = ["outside_files"]

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.errors import UserError

if TYPE_CHECKING:
    from s2s.task import Task


def outside_files(task: Task, run: Path) -> list[Path]:
    """What the options of a run's task name, and its corpora consist of, that lies elsewhere; links are followed."""
    roots = (Path().resolve(), run.resolve())
    named = [path for text in _texts(task.config) if (path := _path(text))]
    named += [file for folder in named if folder.is_dir() for file in folder.rglob("*")]
    with suppress(UserError, OSError, ValueError):  # such as a corpus that is gone
        named += map(Path, task.dependencies().files)
    return [path for path in dict.fromkeys(named) if not any(map(path.resolve().is_relative_to, roots))]


def _path(text: str) -> Path | None:
    """The file or folder that a text names; None if there is none, or for a separator such as / or a dot."""
    with suppress(OSError, ValueError, RuntimeError):  # a name that is too long, the home of an unknown user
        path = Path(text).expanduser()
        if any(map(str.isalnum, text)) and (path.exists() or path.is_symlink()):
            return path
    return None


def _texts(config: Any) -> Iterator[str]:
    if isinstance(config, str):
        yield config
    elif isinstance(config, Mapping):
        for key, value in config.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(config, list | tuple):
        for value in config:
            yield from _texts(value)
    elif is_dataclass(config):
        for item in fields(config):
            yield from _texts(getattr(config, item.name))
