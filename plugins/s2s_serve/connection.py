"""Cancels the work on a request whose client has disconnected."""

from __future__ import annotations

__all__ = ["unless_gone"]

import asyncio
from typing import TYPE_CHECKING

from fastapi import Request, Response

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from s2s_serve.server import Server

GONE = 499
"""nginx's status for a client that closed the connection; used only by the metrics"""


async def unless_gone(server: Server, request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """The response of `work`, which is cancelled when the client disconnects."""
    task, gone = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        server.metrics.cancelled.add(1, request.url.path)
        return Response(status_code=GONE)
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
