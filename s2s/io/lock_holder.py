"""What a lock says of the process that holds it."""

from __future__ import annotations

__all__ = ["in_use_error", "lock_holder"]

import json
import os
import time
from typing import TYPE_CHECKING

from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path


def in_use_error(path: Path) -> CheckpointError:
    """The error for a lock that another process holds, by what `lock_holder` wrote into it."""
    try:
        holder = json.loads(path.read_text())
        who = f"process {holder['pid']} on {holder['host']}, started {holder['started']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return CheckpointError(f"{path.parent} is in use by {who}; wait for it, stop it, or choose another folder")


def lock_holder() -> dict[str, str | int]:
    """This process."""
    return {"pid": os.getpid(), "host": os.uname().nodename, "started": time.strftime("%Y-%m-%d %H:%M:%S %z")}
