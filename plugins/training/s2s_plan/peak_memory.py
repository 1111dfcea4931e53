"""Peak memory of a piece of code."""

from __future__ import annotations

__all__ = ["PeakMemory", "can_measure_peak"]

from pathlib import Path
from typing import Self

import torch

from s2s.backend import proc_bytes


class PeakMemory:
    """Peak memory inside the block: of the GPU if one is used, else of this process."""

    bytes = 0

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __enter__(self) -> Self:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            Path("/proc/self/clear_refs").write_text("5")  # resets the peak to current use (man 5 proc)
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = self._peak()

    def _peak(self) -> int:
        if self.device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self.device))
        return proc_bytes(Path("/proc/self/status"), "VmHWM:") or 0


def can_measure_peak(device: torch.device) -> bool:
    """Whether `PeakMemory` works here; on a CPU it needs Linux, and permission to reset the peak."""
    if device.type == "cuda":
        return True
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True
