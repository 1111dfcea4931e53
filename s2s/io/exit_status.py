"""The exit status of a command: one line on standard error and an exit code.

One of several processes writes it to an error file instead, and the launcher prints the one that matters.
"""

from __future__ import annotations

__all__ = ["ExitStatus", "one_line"]

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ERROR_DIR = "S2S_ERROR_DIR"
"""Environment variable with the directory of the error files"""
MAX_CHARS = 4000
"""Longest line that is printed"""

Cause = Literal["self", "peer", "hang"]
"""Which process caused an exit: the one that exits; a rank whose connection was lost; or one that did not join a
collective within train.timeout"""


class ExitStatus(NamedTuple):
    """Why a process ended: the contents of its error file."""

    message: str
    code: int
    cause: Cause
    rank: int
    time: float
    """Seconds since 1970"""

    @staticmethod
    def report(command: str, message: str, code: int, cause: Cause = "self") -> int:
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

    @staticmethod
    @contextlib.contextmanager
    def in_files(directory: Path) -> Iterator[None]:
        """Processes started in the block write error files there; afterwards this process prints its messages again."""
        os.environ[ERROR_DIR] = str(directory)
        try:
            yield
        finally:
            del os.environ[ERROR_DIR]

    @classmethod
    def read_files(cls, directory: Path) -> list[ExitStatus]:
        """The statuses of all ranks that wrote one, the oldest first; the files are removed."""
        statuses = []
        for file in directory.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, TypeError):
                statuses.append(cls(*json.loads(file.read_bytes())))
            file.unlink()
        return sorted(statuses, key=lambda status: status.time)


def one_line(message: str) -> str:
    """The message as one printable line: control characters escaped, the middle cut out if it is too long."""
    if len(message) > MAX_CHARS:
        message = f"{message[: MAX_CHARS // 2]} … {message[-MAX_CHARS // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
