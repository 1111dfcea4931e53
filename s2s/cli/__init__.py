"""The commands; a plugin runs a command of its own with `run_command`, which reads its arguments and flags."""

from __future__ import annotations

__all__ = ["Options", "check_output", "exclude_loaded", "guard", "run_command"]

from typing import TYPE_CHECKING

from s2s.lasting import exclude_loaded
from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.cli.command import Options, run_command
    from s2s.cli.failures import guard
    from s2s.cli.outputs import check_output

__getattr__ = lazy_names(__name__, "command", "failures", "outputs")
