"""What can go wrong, as a tree: a command turns each of these into one line and an exit code.

S2SError                 anything s2s raises on purpose                              exit 1
├── UserError            the user can fix it: a file, an option, a name              exit 2
│   ├── ConfigError      an option, a preset or a configuration file
│   ├── DataError        a corpus, a tokeniser, an input file
│   ├── CheckpointError  a run directory or a checkpoint
│   └── PluginError      a plugin that is missing, broken or clashes
└── Preempted            a signal requested a stop; everything is saved              exit 75 or 130
"""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "ConfigError",
    "DataError",
    "PluginError",
    "Preempted",
    "S2SError",
    "UserError",
    "did_you_mean",
]

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class S2SError(Exception):
    """Base of every error that s2s raises on purpose."""

    exit_code = 1


class UserError(S2SError):
    """Something the user can fix; the message says what was given, what was expected, what to do."""

    exit_code = 2


class ConfigError(UserError):
    """An option, a preset or a configuration file is wrong."""


class DataError(UserError):
    """A corpus, a tokeniser or an input file is wrong."""


class CheckpointError(UserError):
    """A run directory or a checkpoint cannot be used."""


class PluginError(UserError):
    """A plugin is missing, broken, or clashes with another."""


class Preempted(S2SError):  # noqa: N818  the state of a run, not a fault
    """Training stopped at a step boundary because a signal requested it; everything is saved."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to an error message: the closest name, or else the known ones, at most 20.

    >>> did_you_mean("transfromer", ["transformer", "rnn"])
    " Did you mean 'transformer'?"
    """
    choices = sorted(set(known) - {name})
    near = difflib.get_close_matches(name, choices)
    if near:
        return f" Did you mean '{near[0]}'?"
    if not choices:
        return ""
    return f" Known: {', '.join(choices[:20])}{', …' if len(choices) > 20 else ''}."
