"""What a device can do: its rate of matrix products, its memory, whether it has varlen flash attention."""

from __future__ import annotations

__all__ = [
    "PeakMemory",
    "can_measure_peak",
    "free_memory",
    "has_varlen_attention",
    "keep_freed_memory",
    "matmul_rate",
    "peak_memory",
]

import ctypes
import resource
import sys
import time
from pathlib import Path
from typing import Self

import torch

from s2s.backend.memory import available

WIDTH = {"cpu": 512, "cuda": 8192}
"""Of the square matrices with which the rate is measured"""
REPEATS = 3


def matmul_rate(device: torch.device, dtype: torch.dtype, width: int | None = None) -> float:
    """Floating-point operations per second of one large product: the best of three, in CPU time on a CPU."""
    width = width or WIDTH[device.type]
    a, b = (torch.randn(width, width, device=device).to(dtype) for _ in range(2))
    a @ b
    return 2 * width**3 / min(_seconds(a, b) for _ in range(REPEATS))


def _seconds(a: torch.Tensor, b: torch.Tensor) -> float:
    if a.device.type == "cpu":
        began = time.process_time()
        a @ b
        return (time.process_time() - began) / torch.get_num_threads()
    torch.accelerator.synchronize()
    began = time.perf_counter()
    a @ b
    torch.accelerator.synchronize()
    return time.perf_counter() - began


def peak_memory(device: torch.device) -> int:
    """Peak bytes allocated so far: on the GPU where one is used, else by this process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


class PeakMemory:
    """Peak memory inside the block: of the GPU where one is used, else of this process."""

    bytes = 0

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __enter__(self) -> Self:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            Path("/proc/self/clear_refs").write_text("5")  # sets the peak to what is in use (man 5 proc)
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = self._peak()

    def _peak(self) -> int:
        if self.device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self.device))
        return _kilobytes("/proc/self/status", "VmHWM:")


def can_measure_peak(device: torch.device) -> bool:
    """Whether `PeakMemory` works here; on a CPU it needs Linux, and permission to reset the peak."""
    if device.type == "cuda":
        return True
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def free_memory(device: torch.device) -> int:
    """Bytes that can still be allocated."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    return available().n_bytes


def has_varlen_attention(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether torch has flash attention of packed sentences (varlen) for this device and type."""
    return device.type == "cuda" and dtype.itemsize == 2 and torch.cuda.get_device_capability(device) >= (8, 0)


def keep_freed_memory() -> None:
    """Makes the C library keep freed memory for later allocations instead of returning it to the system.

    Else every step requests memory for its logits anew, page by page, which took a fifth of the time of decoding
    Multi30k. Does nothing with other C libraries than GNU's.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for parameter, value in ((-4, 0), (-1, 2**31 - 1), (-2, 2**26)):  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD
        mallopt(parameter, value)


def _kilobytes(file: str, name: str) -> int:
    """Bytes, from a file of lines such as `VmHWM: 1234 kB`."""
    lines = Path(file).read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))
