"""Cancels the work on a request whose client has disconnected."""

from __future__ import annotations

__all__ = ["cancel_on_disconnect"]

import asyncio
from typing import TYPE_CHECKING

from fastapi import Request, Response

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from s2s_serve.server import Server

CLIENT_CLOSED_REQUEST = 499
"""nginx's status for a client that closed the connection; used only by the metrics"""


async def cancel_on_disconnect(server: Server, request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """The response of `work`, which is cancelled when the client disconnects."""
    task, disconnected = asyncio.create_task(work), asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        server.metrics.cancelled.labels(request.url.path).inc()
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    finally:
        disconnected.cancel()
        task.cancel()
        await asyncio.gather(task, disconnected, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
