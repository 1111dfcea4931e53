"""A process that does not outlive its parent."""

from __future__ import annotations

__all__ = ["end_with_parent"]

import ctypes
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent(signal_number: int) -> None:
    """On Linux, deliver this signal to this process when its parent dies, so that it does not go on unseen; or when the
    thread that made it ends, if that is earlier."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number)
