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
    running, is_done, is_gone = asyncio.current_task(), False, False
    assert running is not None

    def cancel(watching: asyncio.Task[None]) -> None:
        nonlocal is_gone
        if not (is_done or watching.cancelled()):
            is_gone = True
            running.cancel()

    watching = asyncio.create_task(_wait_for_disconnect(request))
    watching.add_done_callback(cancel)
    try:
        return await work
    except asyncio.CancelledError:
        if not is_gone or running.uncancel():  # by somebody else, too
            raise
        metrics.cancelled.labels(request.url.path).inc()
        raise DisconnectedError from None
    finally:
        is_done = True
        watching.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
