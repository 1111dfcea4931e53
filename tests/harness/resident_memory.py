"""How much of a range of addresses is in memory, as Linux's page table has it.

The memory of the whole process would also change with what other tests left, and the kernel only estimates it.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy

if TYPE_CHECKING:
    from torch import Tensor


def n_bytes_in_memory(first: int, n_bytes: int) -> int:
    """Bytes of the range's whole pages that are in memory; of a range that is no longer mapped, none."""
    begin, end = -(-first // mmap.PAGESIZE), (first + n_bytes) // mmap.PAGESIZE
    with Path("/proc/self/pagemap").open("rb", buffering=0) as pages:  # 8 bytes a page, of which bit 63: in memory
        pages.seek(8 * begin)
        found = numpy.frombuffer(pages.read(8 * (end - begin)), numpy.uint64)
    return int((found >> numpy.uint64(63)).sum()) * mmap.PAGESIZE


def address(x: Tensor) -> tuple[int, int]:
    """The first address of a contiguous tensor and its number of bytes."""
    return x.data_ptr(), x.nbytes
