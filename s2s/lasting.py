"""Objects that live as long as the process, which garbage collections need not visit.

In a command they are most of all objects: collections while torch is imported take 0.2 s, and the last ones, at the end
of the process, 0.3 s.
"""

from __future__ import annotations

__all__ = ["lasting_objects"]

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def lasting_objects() -> Iterator[None]:
    """No garbage collection visits what is made within, also not the last one.

    For modules, and what holds no large memory: their garbage stays as well. Without effect in a process that is more
    than a command, where `s2s.cli.run_command` has not frozen what was imported.
    """
    if not gc.get_freeze_count():
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
