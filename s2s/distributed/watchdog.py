"""Which process the others wait for, when they wait too long.

Every process counts what it does together with the others, and leaves the count in the store. One that has waited
for the timeout compares: whoever has counted less has not come. It is named, with the update it is in, and everybody
leaves; the one that hangs shows where it is, first.
"""

from __future__ import annotations

__all__ = ["Watchdog"]

import faulthandler
import json
import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from s2s.ending import Cause, leave

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch.distributed.distributed_c10d import PrefixStore

PERIOD = 1.0
"""Seconds between two looks"""
COURTESY = 3.0
"""Seconds that those who do not speak leave to the one who does"""


class Position(NamedTuple):
    """Where a process stands."""

    n_met: int
    """What it has done or begun together with the others"""
    step: int
    """The update it is in"""


class Watchdog:
    """A thread of every process of a run."""

    def __init__(self, store: PrefixStore, rank: int, size: int, seconds: float) -> None:
        """`seconds`: how long a process may wait."""
        # A connection of its own, since the other may be held by whoever waits; torch's types do not know of it.
        self.store: PrefixStore = store.clone()  # type: ignore[attr-defined]
        self.rank, self.size, self.seconds = rank, size, seconds
        self.step = 0
        self.n_met = 0
        self.what = ""
        self.since = 0.0
        """When the wait began; 0 while there is none"""
        self.told: Position | None = None
        self.over = threading.Event()
        self._tell()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Around what cannot end before all processes have come."""
        self.n_met += 1
        self.what, self.since = what, time.monotonic()
        try:
            yield
        finally:
            self.since = 0.0

    def beat(self) -> None:
        """One more thing done together."""
        self.n_met += 1
        if self.since:
            self.since = time.monotonic()

    def close(self) -> None:
        """Watch no more."""
        self.over.set()
        self.thread.join()

    def _watch(self) -> None:
        period = min(PERIOD, self.seconds / 10)
        while not self.over.wait(period):
            try:
                self._tell()
                if self.store.check(["late"]) and self.rank in json.loads(self.store.get("late")):
                    self._show()
                if self.since and time.monotonic() - self.since > self.seconds:
                    self._accuse()
            except RuntimeError:  # the store has gone with the process that kept it, and so will we
                return

    def _tell(self) -> None:
        here = Position(self.n_met, self.step)
        if here != self.told:
            self.store.set(f"at/{self.rank}", json.dumps(here))
            self.told = here

    def _accuse(self) -> None:
        """Leave, and say because of whom, if there is anybody who has not come."""
        others = [Position(*json.loads(self.store.get(f"at/{rank}"))) for rank in range(self.size)]
        late = [rank for rank, other in enumerate(others) if other.n_met < self.n_met]
        if not late or not self.since:
            return  # all have come: the network is slow, and torch's own timeout ends it
        self.store.set("late", json.dumps(late))
        self.over.wait(2 * PERIOD)  # for them to show where they are
        if self.rank != min(set(range(self.size)) - set(late)):
            time.sleep(COURTESY)
            os._exit(1)
        leave("s2s-train", f"error: {self._accusation(late, others)}", 1, Cause.HANG)

    def _accusation(self, late: Sequence[int], others: Sequence[Position]) -> str:
        where = ", ".join(f"rank {rank} hangs in update {others[rank].step:,}" for rank in late[:8])
        more = f" and {len(late) - 8} more" if len(late) > 8 else ""
        return (
            f"{where}{more}: for {self.seconds:g} s it has not come to {self.what} of update {self.step:,}, where the "
            "others wait (train.timeout). The same command continues from the last checkpoint"
        )

    def _show(self) -> None:
        """Print what this process is doing, and leave."""
        print(f"rank {self.rank} hangs here:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(2, all_threads=True)
        time.sleep(COURTESY)
        os._exit(1)
