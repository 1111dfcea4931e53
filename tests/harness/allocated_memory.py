"""Bytes that malloc has given to this process and not got back: exact, where the memory of the whole process is not."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in FIELDS)


@functools.cache
def _mallinfo() -> Any:
    function = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if function is not None:
        function.restype = MallocInfo
    return function


def n_bytes_allocated() -> int:
    """0 where there is no glibc, or another allocator, as of a sanitizer."""
    function = _mallinfo()
    info = function() if function is not None else None
    return info.uordblks + info.hblkhd if info else 0
