"""train.devices: one process for each device of this machine. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_launch"]

from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.config import Config


@hookimpl
def s2s_launch(config: Config, arguments: Sequence[str]) -> int | None:
    """Run one process per device if there are several, and return their exit code; else None."""
    if config.train.devices == 1:
        return None
    from s2s_distributed.launcher.launch import launch, n_processes

    n = n_processes(config.train)
    return launch("s2s.cli.train", arguments, config.train, n) if n > 1 else None
