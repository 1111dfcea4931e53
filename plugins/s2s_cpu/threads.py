"""Rows divided among threads, for functions in C, which run without the GIL."""

from __future__ import annotations

__all__ = ["PRODUCTS_PER_VALUE", "compute_in_threads", "n_shares"]

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MIN_SHARE_VALUES = 1 << 18
"""Fewest values for which starting a thread, about 50 µs, pays off"""
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
    shares = zip(*([None] * n if t is None else t.tensor_split(n) for t in tensors), strict=True)
    with ThreadPoolExecutor(n) as pool:
        list(pool.map(compute, *zip(*shares, strict=True)))
