"""Checks of paths given by a user: what cannot be read twice or replaced by renaming, what cannot be written."""

from __future__ import annotations

__all__ = ["check_not_gzip", "is_stream", "standard_input"]

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


def check_not_gzip(output: str) -> None:
    """ConfigError for a file named as gzip: outputs are plain text, which can be continued and merged."""
    if output.endswith(".gz"):
        raise ConfigError(
            f"output={output}: outputs are written as plain text, which no command reads under a name in .gz; give "
            f"output={output.removesuffix('.gz')}, or output=- and pipe it to gzip"
        )


def standard_input() -> TextIO:
    """Standard input; raises ConfigError if the shell has closed it."""
    if sys.stdin is None:
        raise ConfigError("standard input is closed; name a file to read")
    return sys.stdin
