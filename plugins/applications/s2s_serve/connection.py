"""Cancels the work on a request whose client has disconnected."""

from __future__ import annotations

__all__ = ["DisconnectedError", "cancel_on_disconnect", "until_disconnect"]

import asyncio
from typing import TYPE_CHECKING, TypeVar

from fastapi import Request, Response

from s2s_serve.refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from s2s_serve.metrics import Metrics

CLIENT_CLOSED_REQUEST = 499
"""nginx's status for a client that closed the connection; used only by the metrics"""

T = TypeVar("T")


class DisconnectedError(RefusedError):
    """The client has closed the connection, so this error is only counted."""

    def __init__(self) -> None:
        super().__init__(CLIENT_CLOSED_REQUEST, "disconnected", "the client has closed the connection")


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, Response], metrics: Metrics) -> Response:
    """The response of `work`, which is cancelled when the client disconnects."""
    try:
        return await until_disconnect(request, work, metrics)
    except DisconnectedError:
        return Response(status_code=CLIENT_CLOSED_REQUEST)


async def until_disconnect(request: Request, work: Coroutine[Any, Any, T], metrics: Metrics) -> T:
    """What `work` returns; when the client disconnects first, it is cancelled, and DisconnectedError is raised."""
    task, disconnected = asyncio.create_task(work), asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        metrics.cancelled.labels(request.url.path).inc()
        raise DisconnectedError
    finally:
        disconnected.cancel()
        task.cancel()
        await asyncio.gather(task, disconnected, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
