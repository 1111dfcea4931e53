"""The commands; a plugin with a command of its own has it checked, explained and run by `run_command`."""

from __future__ import annotations

__all__ = ["FLAGS", "Options", "choice_text", "guard", "run_command", "split_flags", "version", "wrapped"]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.cli.command import FLAGS, Options, guard, run_command, split_flags, version
    from s2s.cli.help import choice_text, wrapped

__getattr__ = lazy_names(__name__, "command", "help")
