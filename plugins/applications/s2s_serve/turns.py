"""Long lists of one request, in steps between which the event loop does what it has to do for others."""

from __future__ import annotations

__all__ = ["in_order", "in_turns"]

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Iterable
    from typing import Any

T = TypeVar("T")

TURN = 0.005
"""Seconds for which a request may keep the event loop"""
AHEAD = 64
"""Tasks of a request, of which some wait to search, and some are done while one before them is not"""


async def in_turns(items: Iterable[T]) -> AsyncGenerator[T]:
    """The same items; while the caller has them the event loop has a turn at least every `TURN` seconds."""
    begun = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - begun > TURN:
            await asyncio.sleep(0)
            begun = time.monotonic()


async def in_order(calls: Iterable[Coroutine[Any, Any, T]]) -> AsyncGenerator[T]:
    """The results of calls in their order, `AHEAD` of which run at once; closing the generator cancels those."""
    tasks = deque[asyncio.Task[T]]()
    try:
        async for call in in_turns(calls):
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
