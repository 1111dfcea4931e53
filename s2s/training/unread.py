"""Updates whose values the host has not read yet, so that it need not wait for the device after each."""

from __future__ import annotations

__all__ = ["UnreadUpdate", "UnreadUpdates"]

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from s2s.training.step_result import LaunchedUpdate, read_results

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.backend.device import Device
    from s2s.data.pairs import Pair
    from s2s.training.step_result import StepResult

MOST = 100
"""Updates that are left unread at most: the host must not run ahead of the device without end"""


class UnreadUpdate(NamedTuple):
    """An update, with what the host knew of it when it was launched."""

    batch: Sequence[Pair]
    step: int
    epoch: int
    wait: float
    """Seconds for which it waited for the data"""
    launched: LaunchedUpdate


class UnreadUpdates:
    """The updates since the last read, and the time that they have taken together."""

    def __init__(self) -> None:
        self.updates: list[UnreadUpdate] = []
        self.seconds = self.busy = 0.0

    @contextmanager
    def timed(self, device: Device) -> Iterator[None]:
        """Inside the block, the time of the host and of the device counts as that of the updates."""
        began, busy = time.monotonic(), device.clock()
        yield
        self.seconds += time.monotonic() - began
        self.busy += device.clock() - busy

    def add(self, update: UnreadUpdate) -> None:
        """One more."""
        self.updates.append(update)

    @property
    def must_be_read(self) -> bool:
        """Whether there is no reason to wait: the newest is on the host, or there are many."""
        return self.updates[-1].launched.values.is_cpu or len(self.updates) >= MOST

    def read(self, device: Device) -> tuple[list[tuple[UnreadUpdate, StepResult]], float, float]:
        """The updates, in order, with their results, and the mean seconds of one, by the clock and of the device."""
        updates, self.updates = self.updates, []
        if not updates:
            return [], 0.0, 0.0
        with self.timed(device):
            results = read_results([update.launched for update in updates])
        seconds, busy = self.seconds / len(updates), max(self.busy / len(updates), 1e-9)
        self.seconds = self.busy = 0.0
        return list(zip(updates, results, strict=True)), seconds, busy
