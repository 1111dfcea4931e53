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
    "is_out_of_memory",
]

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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python or torch, which is not imported here, ran out of memory, on a GPU or a CPU; or numbers are so
    large that they overflow on the way there."""
    words = (
        "can't allocate memory",
        "Cannot allocate memory",
        "Storage size calculation overflowed",
        "integer multiplication overflow",
        "Overflow when unpacking long",
        "too large to convert to",
        "Maximum allowed dimension exceeded",
        "out of memory",  # as the allocators of other devices say
        "failed to map segment",  # of a shared library
        "cannot map zero-fill pages",
        "can't start new thread",
        "Resource temporarily unavailable",  # for a thread in C++
    )
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    kinds = RuntimeError | OverflowError | ImportError | TypeError | ValueError
    return isinstance(error, kinds) and any(word in str(error) for word in words)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to an error message: the closest name, or else the known ones, at most 20.

    >>> did_you_mean("transfromer", ["transformer", "rnn"])
    " Did you mean 'transformer'?"
    """
    import difflib  # only for errors, as everything imports this module

    choices = sorted(set(known) - {name})
    near = difflib.get_close_matches(name, choices)
    if near:
        return f" Did you mean '{near[0]}'?"
    if not choices:
        return ""
    return f" Known: {', '.join(choices[:20])}{', …' if len(choices) > 20 else ''}."
