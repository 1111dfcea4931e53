"""Rows of a tensor that come and go without copying the others: memory of its own lies behind the last one.

A tensor [B, ...] is then the first part of a larger one, [B + n_spare, ...], of which whoever holds it keeps count:
rows that are appended are written behind, and those that leave are overwritten by the last ones.
"""

from __future__ import annotations

__all__ = ["append_rows", "row_keeper", "with_spare_rows", "zeros_with_spare"]

import math
import mmap
import sys
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def zeros_with_spare(like: Tensor, n_spare: int, *sizes: int) -> Tensor:
    """Zeros [B, *sizes] for like [B, ...], with `n_spare` rows behind: on Linux of memory that is taken page by page as
    it is written, and goes back to the system when it is freed."""
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
    """x [B, ...] with n of the rows behind it, uninitialised: [B + n, ...]"""
    return x.as_strided((len(x) + n, *x.shape[1:]), x.stride())


def append_rows(x: Tensor, y: Tensor, n_behind: int, n_spare: int) -> Tensor:
    """x [B, ...] and y [B', ...] with zeros at the end of shorter dimensions, and `n_spare` rows behind both.

    In place if the `n_behind` rows behind x are enough and y is no wider.
    """
    sizes = [*map(max, x.shape[1:], y.shape[1:])]
    is_dense = x.is_contiguous() and x.stride(0) == math.prod(x.shape[1:])  # a single row may be part of a wider one
    if len(y) + n_spare > n_behind or not is_dense or sizes != [*x.shape[1:]]:
        given, x = x, zeros_with_spare(x, len(y) + n_spare, *sizes)
        x[tuple(map(slice, given.shape))] = given
    both = with_spare_rows(x, len(y))
    both[len(x) :].zero_()[tuple(map(slice, y.shape))] = y
    return both


def row_keeper(rows: Tensor) -> tuple[Callable[[Tensor], Tensor], bool]:
    """What leaves of a tensor its rows `rows` [B'], and whether it does so in place.

    In place, only rows from the end that fill gaps are moved, which is possible if all others stay where they are.
    """
    gaps = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
    fillers = rows[gaps]
    if bool((fillers < len(rows)).any()):
        return lambda x: x.index_select(0, rows), False
    return lambda x: x.index_copy_(0, gaps, x.index_select(0, fillers))[: len(rows)], True
