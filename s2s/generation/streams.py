"""Detects paths, given by a user, that cannot be read twice or replaced by renaming."""

from __future__ import annotations

__all__ = ["is_stream", "standard_input"]

import os
import stat
import sys
from typing import TextIO

from s2s.errors import ConfigError


def is_stream(path: str) -> bool:
    """Whether the path is standard input or output (-), a pipe or a device, such as <(command) or /dev/null."""
    if path == "-":
        return True
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  Path's own raises on a name that is too long
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def standard_input() -> TextIO:
    """Standard input; raises ConfigError if the shell has closed it."""
    if sys.stdin is None:
        raise ConfigError("standard input is closed; name a file to read")
    return sys.stdin
