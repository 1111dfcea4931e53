"""Names the rank that hangs when a collective takes longer than train.timeout.

Every rank counts the collectives that it has entered, and publishes the count in the store. A rank that has waited
for the timeout compares the counts: those with a lower count have not entered the collective. They are named, with
the update that they are in; they dump their Python stacks, and every rank exits. While the others wait for work that
rank 0 does first, which may take any time, its thread publishes a count of its own, so that they can distinguish work
from a process that is stopped or gone.

If the store is a server, in rank 0 or in torchrun's agent, a call to it never returns while its process is stopped.
So each call has a time limit of its own.
"""

from __future__ import annotations

__all__ = ["Watchdog", "exit_after"]

import faulthandler
import json
import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from s2s.io import ExitStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch.distributed.distributed_c10d import PrefixStore

PERIOD = 1.0
"""Seconds between two checks"""
MOST_PUBLISHED = 60
"""Maximum number of heartbeats within the timeout"""
POLL_SECONDS = 0.2
REPORT_SECONDS = 3.0
"""Seconds that the other ranks wait while one rank writes the error"""
STORE_SECONDS = 10.0
"""Added to the timeout for the store to answer: longer than it takes to report a rank that hangs"""


class Heartbeat(NamedTuple):
    """The state that a rank publishes."""

    n_collectives: int
    """Collectives entered so far"""
    step: int
    """Current update"""
    n_beats: int = 0
    """Grows while the process works on something that the others wait for"""


class Watchdog:
    """The watchdog thread of a rank."""

    def __init__(self, store: PrefixStore, rank: int, size: int, seconds: float) -> None:
        """`seconds`: how long a collective may take."""
        # A connection of its own, since the main thread may block in a call on the other; torch's types omit `clone`.
        self.store: PrefixStore = store.clone()  # type: ignore[attr-defined]
        self.rank, self.size, self.seconds = rank, size, seconds
        self.step = 0
        self.n_collectives = 0
        self.n_beats = 0
        self.is_beating = False
        self.what = ""
        self.since = 0.0
        """When the current collective was entered; 0 outside collectives"""
        self.published: Heartbeat | None = None
        self.period = min(PERIOD, seconds / 10)
        self.n_rounds = 0
        """Grows as long as the store answers"""
        self.closed = threading.Event()
        self._publish()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        threading.Thread(target=self._watch_store, daemon=True).start()

    @contextmanager
    def collective(self, what: str) -> Iterator[None]:
        """Around an operation that returns only when all ranks have entered it."""
        self.n_collectives += 1
        self.what, self.since = what, time.monotonic()
        try:
            yield
        finally:
            self.since = 0.0

    def heartbeat(self) -> None:
        """Progress inside a long collective: count one more, and restart the clock."""
        self.n_collectives += 1
        if self.since:
            self.since = time.monotonic()

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Around work that the other ranks wait for with `wait_for_main`."""
        self.is_beating = True
        try:
            yield
        finally:
            self.is_beating = False

    def wait_for_main(self, store: PrefixStore, key: str) -> None:
        """Wait until rank 0 sets `key`; exits with an error if rank 0 has not beaten for `seconds`."""
        last, since = b"", time.monotonic()
        while not store.check([key]):
            time.sleep(POLL_SECONDS)
            if (beat := store.get("heartbeat/0")) != last:
                last, since = beat, time.monotonic()
            elif time.monotonic() - since > self.seconds:
                self._exit_naming(
                    [0],
                    f"rank 0 is stopped, or hangs, in what it does first ({key}): for {self.seconds:g} "
                    "s it has given no sign of life (train.timeout). The same command continues from the last "
                    "checkpoint",
                )

    def close(self) -> None:
        """Stop the thread."""
        self.closed.set()
        self.thread.join()

    def _watch(self) -> None:
        published = time.monotonic()
        while not self.closed.wait(self.period):
            self.n_rounds += 1
            try:
                if time.monotonic() - published >= self.seconds / MOST_PUBLISHED:  # a file store only grows
                    self._publish()
                    published = time.monotonic()
                if self.store.check(["hanging"]) and self.rank in json.loads(self.store.get("hanging")):
                    self._dump_stack_and_exit()
                if self.since and time.monotonic() - self.since > self.seconds:
                    self._report_hanging_ranks()
            except RuntimeError:  # the process that hosts the store has ended, and this one will, too
                return

    def _watch_store(self) -> None:
        """Exit when the store does not answer. Periods are counted, not seconds: this process may have been stopped."""
        seen, n_periods = 0, 0
        while self.thread.is_alive():
            self.thread.join(self.period)
            seen, n_periods = self.n_rounds, (n_periods + 1 if self.n_rounds == seen else 0)
            if n_periods * self.period > self.seconds + STORE_SECONDS:
                _exit_without_store(self.seconds)

    def _publish(self) -> None:
        self.n_beats += self.is_beating
        heartbeat = Heartbeat(self.n_collectives, self.step, self.n_beats)
        if heartbeat != self.published:
            self.store.set(f"heartbeat/{self.rank}", json.dumps(heartbeat))
            self.published = heartbeat

    def _report_hanging_ranks(self) -> None:
        """Exit with an error that names the ranks that have not entered the collective, if there are any."""
        others = [Heartbeat(*json.loads(self.store.get(f"heartbeat/{rank}"))) for rank in range(self.size)]
        hanging = [rank for rank, other in enumerate(others) if other.n_collectives < self.n_collectives]
        if not hanging or not self.since:
            return  # all ranks are in it: the network is slow, and torch's own timeout ends it
        self._exit_naming(hanging, self._message(hanging, others))

    def _exit_naming(self, hanging: Sequence[int], message: str) -> NoReturn:
        """Let the ranks that hang dump their stacks, then exit; the first of the others reports `message`."""
        self.store.set("hanging", json.dumps(hanging))
        self.closed.wait(2 * PERIOD)
        if self.rank != min(set(range(self.size)) - set(hanging)):
            time.sleep(REPORT_SECONDS)
            os._exit(1)
        os._exit(ExitStatus.report("s2s-train", f"error: {message}", 1, "hang"))

    def _message(self, hanging: Sequence[int], others: Sequence[Heartbeat]) -> str:
        which = ", ".join(f"rank {rank} hangs in update {others[rank].step:,}" for rank in hanging[:8])
        more = f" and {len(hanging) - 8} more" if len(hanging) > 8 else ""
        return (
            f"{which}{more}: for {self.seconds:g} s it has not entered the collective for {self.what} of update "
            f"{self.step:,}, in which the others wait (train.timeout). The same command continues from the last "
            "checkpoint"
        )

    def _dump_stack_and_exit(self) -> None:
        print(f"rank {self.rank} hangs here:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(2, all_threads=True)
        time.sleep(REPORT_SECONDS)
        os._exit(1)


@contextmanager
def exit_after(seconds: float) -> Iterator[None]:
    """End the process if the block, which calls the store, takes longer than that."""
    timer = threading.Timer(seconds, _exit_without_store, (seconds,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _exit_without_store(seconds: float) -> NoReturn:
    message = (
        f"error: the process through which the ranks meet, rank 0 or torchrun, has not answered for {seconds:g} s "
        "(train.timeout): it is stopped, or hangs. The same command continues from the last checkpoint"
    )
    os._exit(ExitStatus.report("s2s-train", message, 1, "hang"))
