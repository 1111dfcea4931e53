"""Rows divided among threads, for functions in C, which run without the GIL."""

from __future__ import annotations

__all__ = ["PRODUCTS_PER_VALUE", "compute_in_threads", "compute_rows", "compute_shares", "n_shares"]

import functools
import os
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MIN_SHARE_VALUES = 1 << 18
"""Fewest values for which waking a thread, about 25 µs, pays off: some 100 µs of work"""
PRODUCTS_PER_VALUE = 64
"""Multiplications by vectors that take as long as one value of an elementwise function, the unit of `n_shares`"""


def n_shares(n_rows: int, width: int = 1) -> int:
    """The number of shares: as many as torch has threads, but each of at least MIN_SHARE_VALUES values."""
    return max(1, min(torch.get_num_threads(), n_rows, n_rows * width // MIN_SHARE_VALUES))


def compute_in_threads(compute: Callable[..., Any], tensors: Sequence[Tensor | None], n: int) -> None:
    """Split the tensors' first dimensions, which are equal, into n shares; call `compute` on each in its own thread."""
    if n == 1:
        compute(*tensors)
        return
    split = ([None] * n if t is None else t.tensor_split(n) for t in tensors)
    compute_shares(compute, list(zip(*split, strict=True)))


def compute_rows(compute: Callable[..., Any], tensors: Sequence[Tensor | None], n: int) -> None:
    """The same of contiguous tensors [..., D] with equally many rows, which one share gets as they are: a small model
    makes a hundred such calls an update, and views of their rows take 2 µs each."""
    rows = tensors if n == 1 else [t if t is None else t.flatten(0, -2) for t in tensors]
    compute_in_threads(compute, rows, n)


def compute_shares(compute: Callable[..., Any], shares: Sequence[tuple[Any, ...]]) -> None:
    """Call `compute` with the arguments of the first share here, and with those of each other in its own thread."""
    first, *others = shares
    if not others:
        compute(*first)
        return
    futures = [_pool().submit(compute, *share) for share in others]
    try:
        compute(*first)
    finally:
        wait(futures)  # they write to memory of the caller
    for future in futures:
        future.result()


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Threads that stay, only as many as are needed at once: a new thread for each share, to which all memory is new,
    took longer than most products."""
    return ThreadPoolExecutor(os.cpu_count(), "s2s_cpu")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has no thread but the one that forked
