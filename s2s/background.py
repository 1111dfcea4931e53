"""Work in a thread beside the run: something done once, or things made before they are asked for.

Threads do: reading, hashing and writing let go of Python's lock, so the run goes on meanwhile, and no process
can be killed on its own. No signal is ever handled in them: it must interrupt whoever waits.
"""

from __future__ import annotations

__all__ = ["Job", "ahead"]

import signal
import threading
from contextlib import suppress
from queue import Empty, Queue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
LEAVING = 1.0
"""Seconds that a thread gets to end when nobody wants what it makes any more; it then ends with the process"""


class Job(Generic[T]):
    """A piece of work under way."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._work = work
        self._done = threading.Event()  # Thread.join that a signal interrupts forgets that the thread lives
        _start(self._run, "s2s-job")

    @property
    def is_done(self) -> bool:
        """Whether `result` would come at once."""
        return self._done.is_set()

    def result(self) -> T:
        """Wait for the work; what it gave, or the error that it raised."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()


def ahead(items: Iterator[T], n_ahead: int, timeout: float, late: Callable[[], Exception]) -> Generator[T, None, None]:
    """The same items in the same order, `n_ahead` of them made before they are asked for.

    What making one raises is raised when its turn comes; what `late` gives, if one takes `timeout` seconds.
    """
    ready: Queue[tuple[T | None, BaseException | None]] = Queue(n_ahead)
    left = threading.Event()

    def make() -> None:
        try:
            for item in items:
                ready.put((item, None))
                if left.is_set():
                    return
            ready.put((None, StopIteration()))
        except BaseException as error:
            ready.put((None, error))

    maker = _start(make, "s2s-ahead")
    try:
        while True:
            try:
                item, error = ready.get(timeout=timeout)
            except Empty:
                raise late() from None
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]  # there is one where there is no error
    finally:
        left.set()
        _empty(ready)  # so that a maker that waits for room goes on, and sees that nobody does
        maker.join(LEAVING)


def _empty(queue: Queue[tuple[T | None, BaseException | None]]) -> None:
    with suppress(Empty):
        while True:
            queue.get_nowait()


def _start(work: Callable[[], None], name: str) -> threading.Thread:
    """A thread that hears no signals (it inherits what is blocked) and does not hold up the end of the process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread
