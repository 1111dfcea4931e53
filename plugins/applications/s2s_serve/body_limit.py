"""Refuses bodies that are too long before they are held in memory."""

from __future__ import annotations

__all__ = ["BodyLimit"]

from typing import TYPE_CHECKING, Any

from s2s_serve.refusal import too_large

if TYPE_CHECKING:
    from s2s_serve.errors import Errors

JOBS_ROUTE = "/v1/jobs"
"""Route whose bodies are files, with a limit of their own"""
DOCUMENT_ROUTES = ("/v1/documents", "/translate_file")
"""Routes whose bodies are documents"""
FORM = 65_536
"""Bytes of a form beside its file"""


class BodyLimit:
    """Limits bodies to `max_bytes` bytes, with or without a correct content-length header."""

    def __init__(self, app: Any, errors: Errors, max_bytes: int, max_document: int) -> None:
        self.app, self.errors, self.max_bytes, self.max_document = app, errors, max_bytes, max_document

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] == JOBS_ROUTE:
            return await self.app(scope, receive, send)
        max_bytes = self.max_document + FORM if scope["path"] in DOCUMENT_ROUTES else self.max_bytes
        length = dict(scope["headers"]).get(b"content-length", b"").lstrip(b"0")
        if length.isdigit() and (len(length) >= 20 or int(length) > max_bytes):  # of longer numbers int is slow
            return await self._refuse(scope, receive, send, max_bytes)
        n_bytes, refused = 0, False

        async def receive_limited() -> Any:
            nonlocal n_bytes, refused
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > max_bytes and not refused:
                refused = True
                await self._refuse(scope, receive, send, max_bytes)
            return {"type": "http.disconnect"} if refused else message

        async def send_unless_refused(message: Any) -> None:
            if not refused:
                await send(message)

        return await self.app(scope, receive_limited, send_unless_refused)

    async def _refuse(self, scope: Any, receive: Any, send: Any, max_bytes: int) -> None:
        hint = "" if scope["path"] in DOCUMENT_ROUTES else "; send a file as a job"
        refusal = too_large(f"the body is longer than {max_bytes:,} bytes{hint}")
        await self.errors.answer(refusal, scope["path"])(scope, receive, send)
