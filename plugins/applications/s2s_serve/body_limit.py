"""Refuses bodies that are too long before they are held in memory."""

from __future__ import annotations

__all__ = ["BodyLimit"]

import json
from typing import Any

JOBS_ROUTE = "/v1/jobs"
"""Route whose bodies are files, with a limit of their own"""


class BodyLimit:
    """Limits bodies to `max_bytes` bytes, with or without a correct content-length header."""

    def __init__(self, app: Any, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] == JOBS_ROUTE:
            return await self.app(scope, receive, send)
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and len(length) < 20 and int(length) > self.max_bytes:
            return await self._refuse(send)
        n_bytes, refused = 0, False

        async def receive_limited() -> Any:
            nonlocal n_bytes, refused
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > self.max_bytes and not refused:
                refused = True
                await self._refuse(send)
            return {"type": "http.disconnect"} if refused else message

        async def send_unless_refused(message: Any) -> None:
            if not refused:
                await send(message)

        return await self.app(scope, receive_limited, send_unless_refused)

    async def _refuse(self, send: Any) -> None:
        reason = f"the body is longer than {self.max_bytes:,} bytes; send a file as a job"
        body = json.dumps({"error": {"code": "too_large", "message": reason}}).encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": body})
