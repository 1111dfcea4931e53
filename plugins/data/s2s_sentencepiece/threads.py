"""Whether threads can be started, as under ulimit -v and -u they may not: sentencepiece would then end the process."""

from __future__ import annotations

__all__ = ["check_threads"]

import ctypes
import os
import resource
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

STACK = 8 << 20
"""Bytes of a thread's stack if ulimit -s is none"""
MARGIN = 144 << 20
"""Bytes of addresses for one more area of allocations, and for the rest of the work: 250 MB in all were enough for 16
threads, 200 were not"""


def check_threads(n: int) -> None:
    """Raise MemoryError unless `n` threads of C++ can run at the same time. One that cannot be started is an error."""
    if n <= 1:
        return
    left = _addresses_left()
    if left is None:
        _start(n)
        return
    _share_allocations()
    if left < n * _stack() + MARGIN:
        what = f"{n} threads of sentencepiece need {n * _stack() + MARGIN >> 20} MB of addresses"
        raise MemoryError(f"{what}, and {max(left, 0) >> 20} are left; allow more (ulimit -v)")


def _addresses_left() -> int | None:
    """Bytes that this process may still map; None: it has no limit, or the system does not say how many it has."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    try:
        n_pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return None if limit == resource.RLIM_INFINITY else limit - n_pages * os.sysconf("SC_PAGE_SIZE")


def _share_allocations() -> None:
    """Make new threads allocate where all others do: else GNU's C library reserves 64 MB of addresses for each, which
    the stacks of the next ones may lack."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(-8, 1)  # M_ARENA_MAX


def _stack() -> int:
    size, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return STACK if size == resource.RLIM_INFINITY else size


def _start(n: int) -> None:
    """Start as many threads, which end at once."""
    over, threads = Event(), list[Thread]()
    try:
        for _ in range(n):
            thread = Thread(target=over.wait, daemon=True)
            thread.start()
            threads.append(thread)
    except RuntimeError as error:
        what = f"{n} threads of sentencepiece cannot be started ({error})"
        raise MemoryError(f"{what}: allow more processes (ulimit -u)") from None
    finally:
        over.set()
        for thread in threads:
            thread.join()
