"""Rows divided among threads: for functions in C, which Python's lock does not hold up."""

from __future__ import annotations

__all__ = ["divide", "n_shares"]

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEAST = 1 << 18
"""Values for which a thread is worth its start, of about 50 µs"""


def n_shares(n_rows: int, width: int = 1) -> int:
    """As many as torch has threads, but each of at least LEAST values."""
    return max(1, min(torch.get_num_threads(), n_rows, n_rows * width // LEAST))


def divide(compute: Callable[..., Any], tensors: Sequence[Tensor | None], n: int) -> None:
    """Call `compute` with n shares of the tensors' first dimensions, which are equal, each in a thread of its own."""
    if n == 1:
        compute(*tensors)
        return
    shares = zip(*([None] * n if t is None else t.tensor_split(n) for t in tensors), strict=True)
    with ThreadPoolExecutor(n) as pool:
        list(pool.map(compute, *zip(*shares, strict=True)))
