"""A lock for runs on file systems without locks, such as some network file systems. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_lock"]

from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from s2s_heartbeat_lock.heartbeat import Heartbeat


@hookimpl
def s2s_lock(path: Path) -> Heartbeat:
    """A file that its owner rewrites regularly."""
    from s2s_heartbeat_lock.heartbeat import take

    return take(path)
