"""Futures of another thread, awaited in the event loop, which wakes once for all that are done together."""

from __future__ import annotations

__all__ = ["Wakeups"]

import asyncio
import contextlib
import ctypes
import os
import weakref
from collections import deque
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


class Wakeups:
    """What `asyncio.wrap_future` does for one future, which wakes the loop by a system call for each that is done.

    `flush` must be called after futures are resolved. It keeps the interpreter's lock, which `call_soon_threadsafe`
    releases around its system call: a busy loop would take the lock, and a search that wakes it would have to wait.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._reading, self._writing = os.pipe()
        for file in (self._reading, self._writing):
            weakref.finalize(self, os.close, file)
        os.set_blocking(self._reading, False)  # a second event loop may have read what was written
        self._write = ctypes.PyDLL(None).write  # a function of CDLL would release the lock
        self._write.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
        self._is_woken = False
        """Whether the loop will call `_resume`"""

    async def result(self, future: Future[T]) -> T:
        """The result of a future; cancelling the call cancels it. Called in one event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            loop.add_reader(self._reading, self._resume)
            self._loop = loop
        waiting: asyncio.Future[T] = loop.create_future()
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
        if self._done and not self._is_woken:
            self._is_woken = True  # before it is: the loop resets this, in its own thread
            if self._write(self._writing, b"\0", 1) != 1:
                self._is_woken = False  # the next flush tries again

    def _resume(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 64)
        self._is_woken = False  # before the first is taken: one that is done from now on wakes the loop again
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
