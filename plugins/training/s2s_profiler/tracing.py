"""A trace of ten updates, as torch records it."""

from __future__ import annotations

__all__ = ["N_BEFORE", "N_TRACED", "Tracing"]

from typing import TYPE_CHECKING, Any

from torch.profiler import profile, schedule

from s2s import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

N_BEFORE = 5
"""Updates after which memory, caches and compilers have settled"""
WARM_UP = 1
"""Updates that are traced and thrown away: the profiler's own start takes time"""
N_TRACED = 10


class Tracing(Observer):
    """Writes a trace to `path` and reports it."""

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        self.path, self.report, self.n_updates = path, report, 0
        plan = schedule(wait=N_BEFORE, warmup=WARM_UP, active=N_TRACED, repeat=1)
        self.profile = profile(schedule=plan, on_trace_ready=self._write)
        self.profile.start()

    def is_due(self, step: int) -> bool:
        """Until all is traced, so that the trace of an update holds what the device did for it."""
        del step
        return self.n_updates < N_BEFORE + WARM_UP + N_TRACED

    def updated(self, record: Mapping[str, Any]) -> None:
        """One more update."""
        self.n_updates += 1
        self.profile.step()

    def close(self, error: BaseException | None) -> None:
        """Write what was traced so far, unless the whole trace was written."""
        self.profile.stop()

    def _write(self, done: profile) -> None:
        done.export_chrome_trace(str(self.path))
        self.report(f"profile: {self.path} holds a trace, for chrome://tracing or ui.perfetto.dev")
