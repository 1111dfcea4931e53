"""The commands; a plugin with a command of its own has it checked, explained and run by `run_command`."""

from __future__ import annotations

__all__ = ["FLAGS", "Options", "guard", "run_command"]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.cli.command import FLAGS, Options, guard, run_command

__getattr__ = lazy_names(__name__, "command")
