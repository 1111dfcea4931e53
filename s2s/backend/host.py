"""Settings of this process on the host: torch's threads, and what the C library does with freed memory."""

from __future__ import annotations

__all__ = ["keep_freed_memory", "release_freed_memory", "training_threads"]

import ctypes
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import torch

from s2s.backend.cores import usable_cores

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def training_threads(n: int) -> Iterator[None]:
    """Set the number of torch's threads inside the block; 0: as before, but no more than this process has cores. What
    the block itself changes ends with it, too: a trial run or a small model must not limit the next one."""
    before = torch.get_num_threads()
    torch.set_num_threads(n or min(before, usable_cores()))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def release_freed_memory() -> None:
    """Returns the memory kept by `keep_freed_memory` to the system.

    If sizes change from one batch to the next, the memory kept between allocations grows to several times what is in
    use; allocating the needed pages again costs little if this is done once in a hundred updates.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> None:
    """Makes the C library keep freed memory for later allocations instead of returning it to the system.

    Otherwise every step requests memory for its logits again, page by page, which took a fifth of the time of decoding
    Multi30k. Does nothing with C libraries other than GNU's.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in ((-4, 0), (-1, 2**31 - 1), (-2, 2**26)):  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD
            mallopt(parameter, value)
