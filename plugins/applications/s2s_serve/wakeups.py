"""Futures of another thread, awaited in the event loop, which wakes once for all that are done together."""

from __future__ import annotations

__all__ = ["Wakeups"]

import asyncio
from collections import deque
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


class Wakeups:
    """What `asyncio.wrap_future` does for one future: it wakes the loop by a system call, for each that is done.

    Whoever resolves futures calls `flush` afterwards.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()

    async def result(self, future: Future[T]) -> T:
        """The result of a future; cancelling the call cancels it. Called in one event loop."""
        self._loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = self._loop.create_future()
        future.add_done_callback(lambda done: self._done.append((waiting, done)))
        if future.done():
            self.flush()
        try:
            return await waiting
        except asyncio.CancelledError:
            future.cancel()
            raise

    def flush(self) -> None:
        """Resume what waits for futures that are done; called in any thread."""
        if self._done and self._loop and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._resume)

    def _resume(self) -> None:
        while self._done:
            waiting, done = self._done.popleft()
            if waiting.done():
                continue
            try:
                waiting.set_result(done.result())
            except CancelledError:
                waiting.cancel()
            except BaseException as error:
                waiting.set_exception(error)
