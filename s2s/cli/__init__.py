"""The commands; a plugin runs a command of its own with `run_command`, which reads its arguments and flags."""

from __future__ import annotations

__all__ = ["FLAGS", "Options", "check_not_blocked", "guard", "run_command", "split_flags", "version"]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.cli.command import FLAGS, Options, check_not_blocked, run_command, split_flags
    from s2s.cli.failures import guard, version

__getattr__ = lazy_names(__name__, "command", "failures")
