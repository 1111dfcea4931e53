"""What a device can do: its rate of matrix products, its memory, whether it has varlen flash attention."""

from __future__ import annotations

__all__ = [
    "free_memory",
    "has_varlen_attention",
    "keep_freed_memory",
    "matmul_rate",
    "peak_memory",
    "release_freed_memory",
    "training_threads",
]

import ctypes
import math
import resource
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import torch

from s2s.backend.cores import usable_cores
from s2s.backend.memory import available_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH = {"cpu": 2048, "cuda": 8192}
"""Width of the square matrices with which the rate is measured"""
WARM_UP, MEASURED, LONGEST = 0.1, 0.5, 3.0
"""Seconds before the measurement, seconds without a faster product after which it ends, and its maximum duration"""


def matmul_rate(device: torch.device, dtype: torch.dtype, width: int | None = None) -> float:
    """Floating-point operations per second of one large product, in wall time: the best, measured until none is faster.

    On a shared machine the times of single products differ several-fold. If a product is slow, as in bf16 on a CPU
    without instructions for it, a smaller one is measured; the smaller ones also warm up the larger.
    """
    size = min(256, width or WIDTH[device.type])
    while True:
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        began = time.perf_counter()
        seconds = _seconds(a, b)
        while time.perf_counter() - began < WARM_UP:
            seconds = _seconds(a, b)
        if size == (width or WIDTH[device.type]) or 8 * seconds > MEASURED:
            return 2 * size**3 / _best(a, b)
        size *= 2


def _best(a: torch.Tensor, b: torch.Tensor) -> float:
    """Seconds of the fastest of several products."""
    began = found_at = time.perf_counter()
    best = math.inf
    while (now := time.perf_counter()) - found_at < MEASURED and now - began < LONGEST:
        seconds = _seconds(a, b)
        if seconds < 0.98 * best:
            found_at = time.perf_counter()
        best = min(best, seconds)
    return best


def _seconds(a: torch.Tensor, b: torch.Tensor) -> float:
    if a.device.type == "cuda":
        torch.cuda.synchronize(a.device)
    began = time.perf_counter()
    a @ b
    if a.device.type == "cuda":
        torch.cuda.synchronize(a.device)
    return time.perf_counter() - began


def peak_memory(device: torch.device) -> int:
    """Peak bytes allocated so far: on the GPU where one is used, else by this process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def free_memory(device: torch.device) -> int:
    """Bytes that can still be allocated."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    return available_memory().n_bytes


def has_varlen_attention(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether torch has flash attention of packed sentences (varlen) for this device and type."""
    return device.type == "cuda" and dtype.itemsize == 2 and torch.cuda.get_device_capability(device) >= (8, 0)


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
