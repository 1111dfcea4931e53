"""The memory of a search's nodes: rows of sentences that come and go, with spare rows after the last one.

A tensor [B, ...] is the first part of a larger one, [B + n_spare, ...]: new rows are written after the last one, and
rows that leave are overwritten by the last ones. On a CPU, large buffers take memory only where they are written.
"""

from __future__ import annotations

__all__ = ["NodeBuffers", "RowSelection", "append_rows"]

import ctypes
import functools
import math
import mmap
import sys
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGE = 2**18
"""Minimum bytes of a row for which freeing the unused part is worth a system call"""


class NodeBuffers(list[Tensor]):
    """Nodes of every layer, [B, N, ·]; methods write into the tensors, or replace them one by one in this list."""

    def __init__(self, layers: Iterable[Tensor], n_spare: int = 0) -> None:
        super().__init__(layers)
        self.n_spare = n_spare
        """Rows of this memory after the last one"""

    @property
    def room(self) -> int:
        """N, the nodes that fit into a row."""
        return self[0].size(1)

    def select(self, selection: RowSelection, used: Tensor) -> Self:
        """The selected rows, of which only the first `used` [B] nodes hold anything."""
        n_spare = self.n_spare + len(used) - len(selection.rows) if selection.in_place else 0
        return type(self)([selection.select_used(x, used) for x in self], n_spare)

    def join(self, other: Self, n_used: int) -> Self:
        """With the rows of `other`, of which only the first `n_used` nodes hold anything; there must be room."""
        for i, (x, y) in enumerate(zip(self, other, strict=True)):
            self[i] = _with_spare(x, len(y))
            _clear(self[i][len(x) :])[:, :n_used] = y[:, :n_used]
        return type(self)(self, self.n_spare - len(other[0]))

    def move(self, row: Tensor, node: Tensor, to: Tensor, room: int, n_spare: int) -> Self:
        """Rows of `room` nodes with nothing but the nodes (row, node), as the nodes (row, to); all of them [n]."""
        for i, x in enumerate(self):  # the old ones are freed one by one
            kept = x.flatten(0, 1).index_select(0, row * x.size(1) + node)
            self[i] = _zeros(x, n_spare, room, x.size(2))
            self[i].flatten(0, 1).index_copy_(0, row * room + to, kept)
        return type(self)(self, n_spare)


class RowSelection:
    """Keeps the rows `rows` [B'], on the host, of tensors [B, ...].

    In place if all rows that move come from beyond the first B': then only rows from the end are moved, into gaps.
    """

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.gaps = (rows != torch.arange(len(rows))).nonzero()[:, 0]
        self.fillers = rows[self.gaps]
        self.in_place = not bool((self.fillers < len(rows)).any())
        self.on_device = rows, self.gaps, self.fillers

    def __call__(self, x: Tensor) -> Tensor:
        """[B, ...] -> [B', ...]"""
        if self.on_device[0].device != x.device:  # copied once
            self.on_device = self.rows.to(x.device), self.gaps.to(x.device), self.fillers.to(x.device)
        rows, gaps, fillers = self.on_device
        if not self.in_place:
            return x.index_select(0, rows)
        return x.index_copy_(0, gaps, x.index_select(0, fillers))[: len(rows)]

    def select_used(self, x: Tensor, used: Tensor) -> Tensor:
        """[B, N, ...] -> [B', N, ...]; of large rows that move on a CPU, only the first `used` [B] nodes are copied,
        and what they leave takes no memory."""
        if not self.in_place or not x.is_cpu or math.prod(x.shape[1:]) * x.element_size() < LARGE:
            return self(x)
        moves = torch.stack([self.gaps, self.fillers, used[self.fillers]], dim=1)
        for gap, filler, n in moves.tolist():
            _clear(x[gap])[:n] = x[filler, :n]
        _clear(x[len(self.rows) :])
        return x[: len(self.rows)]


def append_rows(x: Tensor, y: Tensor, n_behind: int, n_spare: int) -> Tensor:
    """x [B, ...] and y [B', ...] with zeros at the end of shorter dimensions, and `n_spare` rows after both.

    In place if the `n_behind` rows after x are enough and y is no wider.
    """
    sizes = [*map(max, x.shape[1:], y.shape[1:])]
    is_dense = x.is_contiguous() and x.stride(0) == math.prod(x.shape[1:])  # a single row may be part of a wider one
    if len(y) + n_spare > n_behind or not is_dense or sizes != [*x.shape[1:]]:
        narrow, x = x, _zeros(x, len(y) + n_spare, *sizes)
        x[tuple(map(slice, narrow.shape))] = narrow
    both = _with_spare(x, len(y))
    both[len(x) :].zero_()[tuple(map(slice, y.shape))] = y
    return both


def _zeros(like: Tensor, n_spare: int, *sizes: int) -> Tensor:
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


def _with_spare(x: Tensor, n: int) -> Tensor:
    """x [B, ...] with n of the rows after it, uninitialised: [B + n, ...]"""
    return x.as_strided((len(x) + n, *x.shape[1:]), x.stride())


def _clear(x: Tensor) -> Tensor:
    """Zero x, in private memory of this process; on Linux its whole pages are freed until they are written again."""
    first, last = x.data_ptr(), x.data_ptr() + x.numel() * x.element_size()
    begin, end = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE, last // mmap.PAGESIZE * mmap.PAGESIZE
    if not x.is_cpu or not x.is_contiguous() or end - begin < LARGE or not _free_pages(begin, end - begin):
        return x.zero_()
    ctypes.memset(first, 0, begin - first)
    ctypes.memset(end, 0, last - end)
    return x


def _free_pages(begin: int, size: int) -> bool:
    """Free these pages of memory, which then are 0; False if that failed, as where they would keep their contents."""
    return sys.platform == "linux" and not _madvise()(begin, size, mmap.MADV_DONTNEED)


@functools.cache
def _madvise() -> Any:
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
