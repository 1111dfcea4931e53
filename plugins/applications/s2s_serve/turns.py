"""Long lists of one request, in steps between which the event loop does what it has to do for others."""

from __future__ import annotations

__all__ = ["in_order", "in_turns", "map_in_turns"]

import asyncio
import time
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
    from typing import Any

T = TypeVar("T")
R = TypeVar("R")

TURN = 0.005
"""Seconds for which a request may keep the event loop"""
AHEAD = 64
"""Tasks of one list, of which some wait to search, and some are done while one before them is not"""


async def in_turns(items: Iterable[T]) -> AsyncGenerator[T]:
    """The same items; yields to the event loop at least every `TURN` seconds, unless one item takes longer."""
    begun = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - begun > TURN:
            await asyncio.sleep(0)
            begun = time.monotonic()


async def map_in_turns(function: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """The results of a function of each item, one after the other, in turns with others in the event loop."""
    async with aclosing(in_turns(items)) as taken:
        return [await function(item) async for item in taken]


async def in_order(calls: Iterable[Coroutine[Any, Any, T]]) -> AsyncGenerator[T]:
    """The results of calls in their order, `AHEAD` of which run at once; closing the generator cancels those."""
    tasks = deque[asyncio.Task[T]]()
    try:
        async with aclosing(in_turns(calls)) as begun:
            async for call in begun:
                tasks.append(asyncio.create_task(call))
                if len(tasks) == AHEAD:
                    yield await tasks[0]
                    tasks.popleft()
        while tasks:
            yield await tasks[0]
            tasks.popleft()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
