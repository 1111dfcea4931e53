"""Run something in a forked child, where it may limit itself, change modules, or die."""

from __future__ import annotations

import os
import traceback
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def in_child(action: Callable[[], object]) -> int:
    """The child's exit code: 0, or 1 and a traceback, or what it chose itself; -n if signal n ended it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads; ours are idle
        pid = os.fork()
    if pid == 0:
        try:
            action()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
