"""Background threads: a single job, and an iterator whose next items are made in advance.

Threads rather than processes: reading, hashing and writing release the GIL, and a thread cannot be killed on its
own. Signals are blocked in these threads, so that they always interrupt the main thread.
"""

from __future__ import annotations

__all__ = ["Job", "prefetch"]

import signal
import threading
from contextlib import suppress
from queue import Empty, Queue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
JOIN_SECONDS = 1.0
"""Seconds to wait for a prefetching thread whose items are no longer needed; it is a daemon thread"""


class Job(Generic[T]):
    """A function that runs in a background thread."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._function = function
        self._done = threading.Event()  # a Thread.join interrupted by a signal takes the thread for finished
        _start(self._run, "s2s-job")

    @property
    def is_done(self) -> bool:
        """Whether `result` returns without waiting."""
        return self._done.is_set()

    def wait(self) -> None:
        """Wait until the function has returned, or raised an error."""
        self._done.wait()

    def result(self) -> T:
        """Wait until the function has returned; its value, or the error that it raised."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._function())
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()


def prefetch(
    items: Iterator[T], n_ahead: int, timeout: float, timeout_error: Callable[[], Exception]
) -> Generator[T, None, None]:
    """The same items in the same order, up to `n_ahead` of them made in a background thread before they are requested.

    An error in making an item is raised when that item is requested; `timeout_error()` is raised if one takes longer
    than `timeout` seconds.
    """
    ready: Queue[tuple[T | None, BaseException | None]] = Queue(n_ahead)
    closed = threading.Event()

    def produce() -> None:
        try:
            for item in items:
                ready.put((item, None))
                if closed.is_set():
                    return
            ready.put((None, StopIteration()))
        except BaseException as error:
            ready.put((None, error))

    producer = _start(produce, "s2s-prefetch")
    try:
        while True:
            try:
                item, error = ready.get(timeout=timeout)
            except Empty:
                raise timeout_error() from None
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]  # there is one where there is no error
    finally:
        closed.set()
        _drain(ready)  # a producer that is blocked on a full queue goes on, and sees `closed`
        producer.join(JOIN_SECONDS)


def _drain(queue: Queue[tuple[T | None, BaseException | None]]) -> None:
    with suppress(Empty):
        while True:
            queue.get_nowait()


def _start(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread with SIGNALS blocked: a thread inherits the signal mask of its creator."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread
