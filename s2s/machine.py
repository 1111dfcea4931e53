"""What the machine can do, and what it holds."""

from __future__ import annotations

__all__ = ["free_memory", "matmul_rate", "peak_memory"]

import resource
import sys
import time
from pathlib import Path

import torch

WIDTH = {"cpu": 512, "cuda": 8192}
"""Of the square matrices with which the rate of products is measured"""
REPEATS = 3


def matmul_rate(device: torch.device, dtype: torch.dtype, width: int | None = None) -> float:
    """Operations a second of one large product: the best of three, by the process's time on a CPU."""
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
    """Most bytes held so far: of the GPU where one is used, else of this process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def free_memory(device: torch.device) -> int:
    """Bytes that can still be had."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    raise OSError("/proc/meminfo does not say MemAvailable")
