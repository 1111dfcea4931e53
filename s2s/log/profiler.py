"""A trace of a few updates, operator by operator, as torch records it."""

from __future__ import annotations

__all__ = ["tracing"]

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch.profiler import ProfilerActivity, profile, schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

N_BEFORE = 5
"""Updates after which memory, caches and compilers have settled"""
N_TRACED = 10


@contextmanager
def tracing(path: Path | None, report: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Inside the block, call what it gives after every update: ten of them are traced into `path`, if there is one."""
    if path is None:
        yield lambda: None
        return

    def write(done: profile) -> None:
        done.export_chrome_trace(str(path))
        report(f"profile: {path} holds a trace, for chrome://tracing or ui.perfetto.dev")

    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
    plan = schedule(wait=N_BEFORE, warmup=1, active=N_TRACED, repeat=1)
    with profile(activities=activities, schedule=plan, on_trace_ready=write) as traced:
        yield traced.step
