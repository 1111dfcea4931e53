"""The processor cores that this process may use: those of its affinity, or fewer under a CPU quota."""

from __future__ import annotations

__all__ = ["usable_cores"]

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from s2s.backend.control_groups import CGROUP, PROC, group_folders, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def usable_cores(proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """At least 1. With more threads than its quota has cores, a container is stopped in the middle of products."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *_shares(proc, cgroup)]))


def _shares(proc: Path, cgroup: Path) -> Iterator[int]:
    """Whole cores whose time each control group may use (v2: cpu.max, v1: cpu.cfs_quota_us of cpu.cfs_period_us)."""
    for folder, version in group_folders("cpu", proc, cgroup):
        names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        with suppress(ValueError, ZeroDivisionError):  # "max", or no such file
            microseconds, period = (int(word) for name in names for word in text_of(folder / name).split())
            if microseconds > 0:  # -1: no limit
                yield microseconds // period
