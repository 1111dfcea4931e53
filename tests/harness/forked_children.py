"""Run something in forked children, where it may limit itself, change modules, or die."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 60
"""After this a child that hangs is ended"""


def in_child(action: Callable[[], object]) -> int:
    """The child's exit code: 0, or 1 and a traceback, or what it chose itself; -n if signal n ended it."""
    return in_children([action])[0]


def in_children(actions: list[Callable[[], object]]) -> list[int]:
    """The exit codes of children that run side by side."""
    children = [_fork(action) for action in actions]
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]


def _fork(action: Callable[[], object]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads; ours are idle
        pid = os.fork()
    if pid:
        return pid
    signal.alarm(SECONDS)
    torch.set_num_threads(1)  # the parent's threads did not come along, and OpenMP would wait for them
    try:
        action()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
