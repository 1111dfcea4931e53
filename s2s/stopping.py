"""Signals that ask a run to stop, heard at the next moment at which nothing is lost.

While nothing has to be saved (start-up, and after the last update is saved) a signal ends the process at once;
during an update it waits for the end of it; work that can be left off in the middle, such as a validation, is.
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
SAME = 1.0
"""Seconds within which a second signal is the first one again: torchrun passes on what the terminal has sent already"""
DEAF = 3.0
"""Seconds that Python gets to hear a signal, which it cannot while C code runs, such as sentencepiece's training"""

_CODES = {
    signal.SIGINT: EXIT_INTERRUPTED,
    signal.SIGTERM: EXIT_PREEMPTED,
    signal.SIGUSR1: EXIT_PREEMPTED,
}


class Stopped(KeyboardInterrupt):
    """A signal that is heeded on the spot; no `except Exception` on its way takes it for an error."""

    def __init__(self, number: signal.Signals, what: str = "nothing had to be saved; the same command goes on") -> None:
        super().__init__(f"stopped by {number.name}: {what}")
        self.exit_code = _CODES[number]


class StopSignal:
    """Remembers the first SIGINT, SIGTERM or SIGUSR1, and stops what may be stopped."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.received_at = 0.0
        self.mode: Literal["leave", "wait", "cut"] = "leave"
        """What a signal does: end everything, wait to be asked for, or end the work that can be left off."""
        self.raised: Stopped | None = None
        """What a signal has ended work with"""
        self.heard = threading.Event()
        self.before: dict[int, Any] = {}
        """What the signals did before, while we listen"""

    @contextmanager
    def listening(self) -> Iterator[StopSignal]:
        """Hear the signals inside the block, which they end as Preempted; afterwards all is as it was."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        watcher = threading.Thread(target=self._watch, args=(reading,), daemon=True)
        watcher.start()
        self.before = {number: signal.signal(number, self._hear) for number in _CODES}
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._restore)  # a worker must die of what is meant to end it
        try:
            with self.unmasked():
                yield self
        except Stopped as stop:
            raise Preempted(str(stop), stop.exit_code) from None
        finally:
            self._restore(wakeup)
            self.heard.set()
            os.write(writing, b"\0")
            watcher.join()
            os.close(writing)
            os.close(reading)

    @contextmanager
    def deferring(self) -> Iterator[None]:
        """Inside the block a signal waits: whoever runs it looks at `received` where it can be heeded."""
        self._leave_if_asked()
        self.mode = "wait"
        try:
            yield
        finally:
            self.mode = "leave"
        self._leave_if_asked()

    def until_asked(self, work: Callable[[], T]) -> T | None:
        """What `work` gives, or None if a signal comes before it is done."""
        mode = self.mode
        try:
            with self.unmasked():
                self.mode = "cut"
                result = None if self.received else work()
                self.mode = mode  # in here, so that no signal can come between
        except Stopped:
            self.mode, self.raised = mode, None
            return None
        return result

    @contextmanager
    def unmasked(self) -> Iterator[None]:
        """What a signal ends inside the block ends as Stopped: C code may report an error of its own in its place."""
        try:
            yield
        except Exception as error:
            if self.raised is None or isinstance(error, Preempted):
                raise
            raise self.raised from error

    def error(self, step: int) -> Preempted:
        """What to raise once everything is saved; in a process that heard nothing, since another has."""
        number = self.received or signal.SIGTERM
        message = f"stopped by {number.name} after update {step:,}, saved; the same command continues"
        return Preempted(message, _CODES[number])

    def _leave_if_asked(self) -> None:
        if self.received is not None:
            raise Stopped(self.received)

    def _hear(self, code: int, _frame: Any) -> None:
        number = signal.Signals(code)
        if self.received is None:
            self.received, self.received_at = number, time.monotonic()
            self.heard.set()
            if self.mode != "wait":
                self.raised = Stopped(number)
                raise self.raised
        elif time.monotonic() - self.received_at >= SAME:  # asked twice: the last checkpoint has to do
            raise Stopped(
                number, "asked twice, so nothing was saved; the same command goes on from the last checkpoint"
            )

    def _watch(self, reading: int) -> None:
        """In a thread: leave, if a signal has come, nothing has to be saved, and Python does not get to hear it."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _CODES)  # what interrupts a wait must reach the thread that waits
        while code := os.read(reading, 1)[0]:
            if code in _CODES and not self.heard.wait(DEAF) and self.mode == "leave":
                stop = Stopped(signal.Signals(code))
                os.write(2, f"s2s-train: {stop}\n".encode())
                os._exit(stop.exit_code)

    def _restore(self, wakeup: int = -1) -> None:
        """Let the signals do what they did before."""
        before, self.before = self.before, {}
        if before:
            signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
