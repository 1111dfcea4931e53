"""Objects that live as long as the process, which garbage collections need not visit.

In a command they are most of all objects: collections while torch is imported take 0.2 s, and the last ones, at the end
of the process, 0.3 s.
"""

from __future__ import annotations

__all__ = ["exclude_loaded", "lasting_objects"]

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def lasting_objects() -> Iterator[None]:
    """No garbage collection visits what is made within, also not the last one.

    For modules, and what holds no large memory: their garbage stays as well. Without effect in a process that is more
    than a command.
    """
    if not _is_a_command():
        yield
        return
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
    gc.freeze()


def exclude_loaded() -> None:
    """No garbage collection after this one visits what exists now.

    For a server whose models are loaded: all requests wait for a full collection, which took 45 ms. Without effect in
    a process that is more than a command.
    """
    if _is_a_command():
        gc.collect()
        gc.freeze()


def _is_a_command() -> bool:
    """Whether the process does no more than one command: `s2s.cli.run_command` then freezes what was imported."""
    return gc.get_freeze_count() > 0
