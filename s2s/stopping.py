"""Signals that ask a run to stop: the first is heard at the next step boundary, the second ends at once."""

from __future__ import annotations

__all__ = ["EXIT_INTERRUPTED", "EXIT_PREEMPTED", "StopSignal"]

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from s2s.errors import Preempted

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_PREEMPTED = 75
"""EX_TEMPFAIL: all is saved, the same command continues; a scheduler may requeue on it."""
EXIT_INTERRUPTED = 130
"""The shell's code for Ctrl-C."""

_CODES = {
    signal.SIGINT: EXIT_INTERRUPTED,
    signal.SIGTERM: EXIT_PREEMPTED,
    signal.SIGUSR1: EXIT_PREEMPTED,
}


class StopSignal:
    """Remembers the first SIGINT, SIGTERM or SIGUSR1, for the loop to save and stop between two steps."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None

    @contextmanager
    def listening(self) -> Iterator[StopSignal]:
        """Handle the signals inside the block; the earlier handlers come back after it."""
        before = {number: signal.signal(number, self._hear) for number in _CODES}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def error(self, step: int) -> Preempted:
        """What to raise once everything is saved."""
        assert self.received is not None
        message = f"stopped by {self.received.name} after update {step:,}, saved; the same command continues"
        return Preempted(message, _CODES[self.received])

    def _hear(self, number: int, _frame: Any) -> None:
        if self.received is not None:
            os._exit(_CODES[signal.Signals(number)])  # asked twice: the last checkpoint has to do
        self.received = signal.Signals(number)
