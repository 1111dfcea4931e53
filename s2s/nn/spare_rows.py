"""Adds rows to a tensor and removes them without copying the others: spare memory of its own follows the last row.

A tensor [B, ...] is then the first part of a larger one, [B + n_spare, ...], and its owner keeps track of n_spare:
appended rows are written after the last one, and removed ones are overwritten by the last ones.
"""

from __future__ import annotations

__all__ = ["RowSelector", "append_rows", "clear", "with_spare_rows", "zeros_with_spare"]

import ctypes
import functools
import math
import mmap
import sys
from typing import Any

import torch
from torch import Tensor

LARGE = 2**18
"""Minimum bytes of a row for which freeing the unused part is worth a system call"""


def zeros_with_spare(like: Tensor, n_spare: int, *sizes: int) -> Tensor:
    """Zeros [B, *sizes] for like [B, ...], with `n_spare` rows after them; on Linux in memory that is allocated page by
    page as it is written, and returned to the system when it is freed."""
    shape = (len(like) + n_spare, *sizes)
    size = math.prod(shape) * like.element_size()
    if sys.platform != "linux" or not like.is_cpu or size < 2**20:
        return like.new_zeros(shape)[: len(like)]
    try:
        pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{size:,} bytes for the state of a search") from error
    return torch.frombuffer(pages, dtype=like.dtype).view(shape)[: len(like)]


def with_spare_rows(x: Tensor, n: int) -> Tensor:
    """x [B, ...] with n of the rows after it, uninitialised: [B + n, ...]"""
    return x.as_strided((len(x) + n, *x.shape[1:]), x.stride())


def append_rows(x: Tensor, y: Tensor, n_behind: int, n_spare: int) -> Tensor:
    """x [B, ...] and y [B', ...] with zeros at the end of shorter dimensions, and `n_spare` rows after both.

    In place if the `n_behind` rows after x are enough and y is no wider.
    """
    sizes = [*map(max, x.shape[1:], y.shape[1:])]
    is_dense = x.is_contiguous() and x.stride(0) == math.prod(x.shape[1:])  # a single row may be part of a wider one
    if len(y) + n_spare > n_behind or not is_dense or sizes != [*x.shape[1:]]:
        given, x = x, zeros_with_spare(x, len(y) + n_spare, *sizes)
        x[tuple(map(slice, given.shape))] = given
    both = with_spare_rows(x, len(y))
    both[len(x) :].zero_()[tuple(map(slice, y.shape))] = y
    return both


class RowSelector:
    """Keeps the rows `rows` [B'] of tensors [B, ...]; only the first `used` [B] elements of each row hold anything.

    In place if all rows that move come from beyond the first B': then only rows from the end are moved, into gaps.
    """

    def __init__(self, rows: Tensor, used: Tensor) -> None:
        self.rows, self.used = rows, used
        self.gaps = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        self.fillers = rows[self.gaps]
        self.in_place = not bool((self.fillers < len(rows)).any())

    def select_rows(self, x: Tensor) -> Tensor:
        """[B, ...] -> [B', ...]"""
        if not self.in_place:
            return x.index_select(0, self.rows)
        return x.index_copy_(0, self.gaps, x.index_select(0, self.fillers))[: len(self.rows)]

    def select_used(self, x: Tensor) -> Tensor:
        """[B, N, ...] -> [B', N, ...]; on a CPU, the unused part of large rows is 0 and takes no memory."""
        if not x.is_cpu or math.prod(x.shape[1:]) * x.element_size() < LARGE:
            return self.select_rows(x)
        kept = x[: len(self.rows)]
        if not self.in_place:
            kept = zeros_with_spare(kept, 0, *x.shape[1:])
        for row, old, n in self._moved:
            clear(kept[row])[:n] = x[old, :n]
        if self.in_place:
            clear(x[len(self.rows) :])
        return kept

    @functools.cached_property
    def _moved(self) -> list[tuple[int, int, int]]:
        """For each row to copy: its new index, its old index, and how many of its elements are used."""
        rows = self.gaps if self.in_place else torch.arange(len(self.rows), device=self.rows.device)
        old = self.rows[rows]
        return list(zip(rows.tolist(), old.tolist(), self.used[old].tolist(), strict=True))


def clear(x: Tensor) -> Tensor:
    """Zero x, in private memory of this process; on Linux its whole pages are freed until they are written again."""
    first, last = x.data_ptr(), x.data_ptr() + x.numel() * x.element_size()
    begin, end = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE, last // mmap.PAGESIZE * mmap.PAGESIZE
    if not x.is_cpu or not x.is_contiguous() or end - begin < LARGE or (release := _madvise()) is None:
        return x.zero_()
    if release(begin, end - begin, mmap.MADV_DONTNEED):
        return x.zero_()
    ctypes.memset(first, 0, begin - first)
    ctypes.memset(end, 0, last - end)
    return x


@functools.cache
def _madvise() -> Any:
    """The system's function on Linux, else None: on other systems, freed pages may keep their contents."""
    if sys.platform != "linux":
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
