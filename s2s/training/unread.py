"""Updates whose values the host has not read yet, so that it need not wait for the device after each."""

from __future__ import annotations

__all__ = ["ReadUpdate", "UnreadUpdate", "UnreadUpdates"]

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from s2s.training.step_result import LaunchedUpdate, read_results

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.backend.device import Device
    from s2s.data.pairs import Pair
    from s2s.training.step_result import StepResult

MAX_UNREAD = 100
"""Updates that are left unread at most: the host must not run ahead of the device without end"""
TICK = 1e-9
"""Least seconds of an update: a clock may have no finer resolution"""


class UnreadUpdate(NamedTuple):
    """An update, with what the host knew of it when it was launched."""

    batch: Sequence[Pair]
    step: int
    epoch: int
    wait: float
    """Seconds for which it waited for the data"""
    launched: LaunchedUpdate


class ReadUpdate(NamedTuple):
    """An update that the device has made."""

    launched: UnreadUpdate
    result: StepResult
    seconds: float
    """By the clock on the wall, without waiting for data"""
    device_seconds: float
    """By the device's clock"""


class UnreadUpdates:
    """The updates since the last read, and the time that they have taken together.

    Only the sum of their times is known: each update is given a share of it, by its operations.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.updates: list[UnreadUpdate] = []
        self.seconds = 0.0
        """By the clock on the wall, in which they were launched"""
        self.busy_since = 0.0
        """When the device began the first of them, by its own clock"""

    @contextmanager
    def launching(self) -> Iterator[None]:
        """The block launches an update; its time is added to that of the updates."""
        if not self.updates:
            self.busy_since = self.device.clock()  # idle but for the average of weights after the last read
        began = time.monotonic()
        yield
        self.seconds += time.monotonic() - began

    def add(self, update: UnreadUpdate) -> None:
        """Append an update that was launched in the block."""
        self.updates.append(update)

    @property
    def must_be_read(self) -> bool:
        """Whether the updates are to be read now: the newest is on the host, or there are many."""
        return self.updates[-1].launched.values.is_cpu or len(self.updates) >= MAX_UNREAD

    def read(self) -> list[ReadUpdate]:
        """The updates, in order, for which the host waits."""
        updates, self.updates = self.updates, []
        if not updates:
            return []
        began = time.monotonic()
        results = read_results([update.launched for update in updates])
        seconds, self.seconds = self.seconds + time.monotonic() - began, 0.0
        busy = max(self.device.clock() - self.busy_since, TICK)
        shares = _shares([result.flops or 0.0 for result in results])
        return [
            ReadUpdate(update, result, share * seconds, share * busy)
            for update, result, share in zip(updates, results, shares, strict=True)
        ]


def _shares(amounts: Sequence[float]) -> list[float]:
    """Each amount's share of their sum; equal ones if all amounts are 0."""
    total = sum(amounts)
    return [amount / total if total else 1 / len(amounts) for amount in amounts]
