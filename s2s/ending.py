"""Why a process ends, in one line on standard error; one of several leaves it to its launcher, which says it once."""

from __future__ import annotations

__all__ = ["FOLDER", "Cause", "Ending", "leave", "one_line", "read_endings", "say"]

import contextlib
import json
import os
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, NoReturn

FOLDER = "S2S_ENDINGS"
"""The environment variable in which the launcher says where to leave word."""
MOST = 4000
"""Characters of a line"""


class Cause(StrEnum):
    """Whose doing an end is."""

    OWN = "own"
    OTHERS = "others"
    """Another process has ended before"""
    HANG = "hang"
    """Another process has not come"""


class Ending(NamedTuple):
    """The word that a process leaves."""

    message: str
    code: int
    cause: str
    rank: int
    at: float
    """Seconds since 1970"""


def say(command: str, message: str, code: int, cause: Cause = Cause.OWN) -> int:
    """One line for the user, here or through the launcher; the exit code."""
    rank = int(os.environ.get("RANK", "0"))
    if FOLDER in os.environ:
        ending = Ending(message, code, cause, rank, time.time())
        with contextlib.suppress(OSError):
            (Path(os.environ[FOLDER]) / f"{rank}.json").write_text(json.dumps(ending))
        return code
    if rank and code in (75, 130):  # all were asked to stop, and the first says so
        return code
    with contextlib.suppress(OSError, AttributeError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        print(f"{command}: {one_line(message)}{f' (rank {rank})' if rank else ''}", file=sys.stderr, flush=True)
    return code


def leave(command: str, message: str, code: int, cause: Cause) -> NoReturn:
    """Say it and end the process from any thread, whatever the others are stuck in."""
    os._exit(say(command, message, code, cause))


def read_endings(folder: Path) -> list[Ending]:
    """The words that were left, the oldest first; each once."""
    endings = []
    for file in folder.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            endings.append(Ending(*json.loads(file.read_bytes())))
        file.unlink()
    return sorted(endings, key=lambda ending: ending.at)


def one_line(message: str) -> str:
    """Whatever the user gave, one line that a terminal can show: nothing unprintable, and the middle of it cut."""
    if len(message) > MOST:
        message = f"{message[: MOST // 2]} … {message[-MOST // 2 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
