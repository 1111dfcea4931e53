"""The devices that the core supports: the host's processor, and the accelerators of torch's own builds."""

from __future__ import annotations

__all__ = ["CPU", "CUDA", "MPS", "XPU"]

import platform
import resource
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from s2s.backend.device import Device
from s2s.backend.device_types import CPU_SEARCH_TOKENS
from s2s.backend.memory import available_memory, proc_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from torch import Tensor

N_WARM_UP = 3
"""Runs before a capture, in which libraries and the compiler choose their kernels"""
RESET_PEAK = Path("/proc/self/clear_refs")
"""Writing 5 resets a process's peak to its current use (man 5 proc)"""


class CPU(Device):
    """The host; its memory is that of this process."""

    matmul_width = 2048
    search_tokens = CPU_SEARCH_TOKENS
    has_fused_optimizers = True

    def count(self) -> int:
        """One, whatever the number of cores."""
        return 1

    def hardware(self) -> str:
        """The processor's architecture, such as x86_64."""
        return platform.machine()

    def select(self) -> None:
        """Nothing to do."""

    def synchronize(self) -> None:
        """Nothing to do: every operation ends before the next."""

    def clock(self) -> float:
        """CPU time of the calling thread, which has its share of all work: other processes do not count."""
        return time.thread_time()

    def free_memory(self) -> int:
        """What the system, the control group and the limits of this process leave."""
        return available_memory().n_bytes

    def peak_memory(self) -> int:
        """Peak resident memory of this process; only on Linux can it be reset."""
        if peak := proc_bytes(Path("/proc/self/status"), "VmHWM:"):
            return peak
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak

    def can_measure_peak(self) -> bool:
        """Needs Linux, and permission to reset the peak."""
        try:
            self.reset_peak_memory()
        except OSError:
            return False
        return True

    def reset_peak_memory(self) -> None:
        """Raises OSError where /proc cannot be written."""
        RESET_PEAK.write_text("5")

    def empty_cache(self) -> None:
        """Nothing to do: torch caches no memory of the host."""

    def manual_seed(self, seed: int) -> None:
        """Those of the host alone: torch's own function notes a stack trace for each kind of device that may follow,
        which took 89 µs, twice in an update."""
        torch.default_generator.manual_seed(seed)

    def fork_rng(self) -> AbstractContextManager[None]:
        """Of the host alone."""
        return torch.random.fork_rng([])


class CUDA(Device):
    """An NVIDIA GPU, or an AMD one: torch built for ROCm has the same name and functions."""

    collectives = "nccl"
    pins_memory = supports_graphs = has_fused_optimizers = has_recurrent_kernels = True

    def hardware(self) -> str:
        """Its name, such as NVIDIA H100 80GB HBM3."""
        return torch.cuda.get_device_name(self.device)

    def has_varlen_attention(self, dtype: torch.dtype) -> bool:
        """For 16-bit types from compute capability 8.0 on."""
        return dtype.itemsize == 2 and torch.cuda.get_device_capability(self.device) >= (8, 0)

    def capture(self, function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """Capture a function as a CUDA graph."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(N_WARM_UP):
                function()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = function()
        return graph.replay, result


class XPU(Device):
    """An Intel GPU."""

    collectives = "xccl"
    pins_memory = True

    def hardware(self) -> str:
        """Its name, such as Intel(R) Arc(TM) A770 Graphics."""
        return torch.xpu.get_device_name(self.device)


class MPS(Device):
    """The GPU of an Apple processor: it has no float64, shares the host's memory and records no peak."""

    wide_dtype = torch.float32

    def hardware(self) -> str:
        """The processor's architecture, such as x86_64."""
        return platform.machine()

    def free_memory(self) -> int:
        """What Metal recommends to use at most, less what it has allocated."""
        return max(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory(), 0)

    def peak_memory(self) -> int:
        """What Metal has allocated now, which includes what torch caches."""
        return torch.mps.driver_allocated_memory()

    def can_measure_peak(self) -> bool:
        """Metal keeps none."""
        return False

    @contextmanager
    def fork_rng(self) -> Iterator[None]:
        """Its functions take no index, which torch's own `fork_rng` would pass."""
        state = torch.mps.get_rng_state()
        with torch.random.fork_rng([]):
            try:
                yield
            finally:
                torch.mps.set_rng_state(state)
