"""The exit status of a command: one line on standard error and an exit code.

One of several processes writes it to an error file instead, and the launcher prints the one that matters.
"""

from __future__ import annotations

__all__ = ["ERROR_DIR", "Cause", "ExitStatus", "exit_now", "one_line", "read_error_files", "report"]

import contextlib
import json
import os
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, NoReturn

ERROR_DIR = "S2S_ERROR_DIR"
"""Environment variable in which the launcher names the directory of the error files"""
MAX_CHARS = 4000
"""Longest line that is printed"""


class Cause(StrEnum):
    """Which process caused an exit."""

    OWN = "own"
    """The one that exits"""
    PEER = "peer"
    """Another rank, whose connection was lost"""
    HANG = "hang"
    """Another rank, which did not join a collective within train.timeout"""


class ExitStatus(NamedTuple):
    """The contents of an error file."""

    message: str
    code: int
    cause: str
    rank: int
    time: float
    """Seconds since 1970"""


def report(command: str, message: str, code: int, cause: Cause = Cause.OWN) -> int:
    """Print the message, or write it to this rank's error file under a launcher; returns the exit code."""
    rank = int(os.environ.get("RANK", "0"))
    if ERROR_DIR in os.environ:
        status = ExitStatus(message, code, cause, rank, time.time())
        with contextlib.suppress(OSError):
            (Path(os.environ[ERROR_DIR]) / f"{rank}.json").write_text(json.dumps(status))
        return code
    if rank and code in (75, 130):  # all ranks were asked to stop: rank 0 prints it
        return code
    with contextlib.suppress(OSError, AttributeError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        print(f"{command}: {one_line(message)}{f' (rank {rank})' if rank else ''}", file=sys.stderr, flush=True)
    return code


def exit_now(command: str, message: str, code: int, cause: Cause) -> NoReturn:
    """Report and end the process from any thread, even if the main thread is blocked."""
    os._exit(report(command, message, code, cause))


def read_error_files(directory: Path) -> list[ExitStatus]:
    """The statuses of all ranks that wrote one, the oldest first; the files are removed."""
    statuses = []
    for file in directory.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            statuses.append(ExitStatus(*json.loads(file.read_bytes())))
        file.unlink()
    return sorted(statuses, key=lambda status: status.time)


def one_line(message: str) -> str:
    """The message as one printable line: control characters escaped, the middle cut out if it is too long."""
    if len(message) > MAX_CHARS:
        message = f"{message[: MAX_CHARS // 2]} … {message[-MAX_CHARS // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
