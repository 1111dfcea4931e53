"""The rate at which a device computes matrix products."""

from __future__ import annotations

__all__ = ["matmul_rate"]

import math
import time

import torch

from s2s.backend.device_types import device_of

WARM_UP, MEASURED, LONGEST = 0.1, 0.5, 3.0
"""Seconds before the measurement, seconds without a faster product after which it ends, and its maximum duration"""

TICK = 1e-7
"""Least seconds of a product: a clock may have no finer resolution"""


def matmul_rate(device: torch.device, dtype: torch.dtype, width: int | None = None) -> float:
    """Floating-point operations per second of one large product, by the device's clock: the best, until none is faster.

    Even by CPU time, single products differ on a shared machine, by caches and by cores that run two threads. If a
    product is slow, as in bf16 on a CPU without instructions for it, a smaller one is measured; the smaller ones also
    warm up the larger.
    """
    width = width or device_of(device).matmul_width
    size = min(256, width)
    while True:
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        began = time.perf_counter()
        seconds = _seconds(a, b)
        while time.perf_counter() - began < WARM_UP:
            seconds = _seconds(a, b)
        if size == width or 8 * seconds > MEASURED:
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
    device = device_of(a.device)
    device.synchronize()
    began = device.clock()
    a @ b
    device.synchronize()
    return max(device.clock() - began, TICK)
