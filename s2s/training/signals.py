"""Signals that stop a run, handled at the next moment at which nothing is lost.

While nothing has to be saved (start-up, and after the last update is saved) a signal ends the process at once; during
an update it is deferred to the update's end; interruptible work, such as a validation, is abandoned.
"""

from __future__ import annotations

__all__ = ["EXIT_INTERRUPTED", "EXIT_PREEMPTED", "StopSignal", "Stopped"]

import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from s2s.errors import Preempted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

EXIT_PREEMPTED = 75
"""EX_TEMPFAIL: all is saved, the same command continues; a scheduler may requeue on it."""
EXIT_INTERRUPTED = 130
"""The shell's code for Ctrl-C."""
REPEATED = 1.0
"""Seconds within which a second signal counts as the first: torchrun forwards what the terminal has already sent"""
GRACE = 3.0
"""Seconds before the process is ended if Python's handler cannot run: C code, such as sentencepiece's, blocks it"""

_CODES = {
    signal.SIGINT: EXIT_INTERRUPTED,
    signal.SIGTERM: EXIT_PREEMPTED,
    signal.SIGUSR1: EXIT_PREEMPTED,
}


class Stopped(KeyboardInterrupt):
    """Raised by a signal that takes effect at once; not an Exception, so that no `except Exception` swallows it."""

    def __init__(self, number: signal.Signals, what: str = "nothing had to be saved; the same command goes on") -> None:
        super().__init__(f"stopped by {number.name}: {what}")
        self.exit_code = _CODES[number]


class StopSignal:
    """Records the first SIGINT, SIGTERM or SIGUSR1 and raises, or defers, according to `mode`."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.received_at = 0.0
        self.mode: Literal["exit", "defer", "interrupt"] = "exit"
        """What a signal does: end the process, only set `received`, or abandon the work of `interruptible`"""
        self.raised: Stopped | None = None
        """The exception that the handler raised"""
        self.handled = threading.Event()
        self.previous: dict[int, Any] = {}
        """The handlers that ours replaced"""

    @contextmanager
    def handling(self) -> Iterator[StopSignal]:
        """Install the handlers inside the block; a signal that ends it raises Preempted."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        watcher = threading.Thread(target=self._watch, args=(reading,), daemon=True)
        watcher.start()
        self.previous = {number: signal.signal(number, self._handle) for number in _CODES}
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._restore)  # signals must end worker processes
        try:
            with self.as_stopped():
                yield self
        except Stopped as stop:
            raise Preempted(str(stop), stop.exit_code) from None
        finally:
            self._restore(wakeup)
            self.handled.set()
            os.write(writing, b"\0")
            watcher.join()
            os.close(writing)
            os.close(reading)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Inside the block a signal only sets `received`, which its code must check."""
        self._raise_if_received()
        self.mode = "defer"
        try:
            yield
        finally:
            self.mode = "exit"
        self._raise_if_received()

    def interruptible(self, work: Callable[[], T]) -> T | None:
        """The result of `work`, or None if a signal arrives before it is done."""
        mode = self.mode
        try:
            with self.as_stopped():
                self.mode = "interrupt"
                result = None if self.received else work()
                self.mode = mode  # inside, so that no signal can arrive in between
        except Stopped:
            self.mode, self.raised = mode, None
            return None
        return result

    @contextmanager
    def as_stopped(self) -> Iterator[None]:
        """Turn any exception that a signal causes inside the block into Stopped: C code may replace ours by its own."""
        try:
            yield
        except Exception as error:
            if self.raised is None or isinstance(error, Preempted):
                raise
            raise self.raised from error

    def error(self, step: int) -> Preempted:
        """The error to raise once everything is saved, on every rank, even if another one received the signal."""
        number = self.received or signal.SIGTERM
        message = f"stopped by {number.name} after update {step:,}, saved; the same command continues"
        return Preempted(message, _CODES[number])

    def _raise_if_received(self) -> None:
        if self.received is not None:
            raise Stopped(self.received)

    def _handle(self, code: int, _frame: Any) -> None:
        number = signal.Signals(code)
        if self.received is None:
            self.received, self.received_at = number, time.monotonic()
            self.handled.set()
            if self.mode != "defer":
                self.raised = Stopped(number)
                raise self.raised
        elif time.monotonic() - self.received_at >= REPEATED:  # a second signal: do not save
            raise Stopped(
                number, "asked twice, so nothing was saved; the same command goes on from the last checkpoint"
            )

    def _watch(self, reading: int) -> None:
        """In a thread: end the process if Python's handler does not run within GRACE and nothing has to be saved."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _CODES)  # signals must interrupt the main thread's waits
        while code := os.read(reading, 1)[0]:
            if code in _CODES and not self.handled.wait(GRACE) and self.mode == "exit":
                stop = Stopped(signal.Signals(code))
                os.write(2, f"s2s-train: {stop}\n".encode())
                os._exit(stop.exit_code)

    def _restore(self, wakeup: int = -1) -> None:
        """Reinstall the previous handlers."""
        previous, self.previous = self.previous, {}
        if previous:
            signal.set_wakeup_fd(wakeup)
        for number, handler in previous.items():
            signal.signal(number, handler)
