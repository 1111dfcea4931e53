"""Answers the plain requests of a route directly: FastAPI takes longer to route one than a small model to search."""

from __future__ import annotations

__all__ = ["Direct"]

from typing import TYPE_CHECKING, Any

from fastapi import Request
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

from s2s.io import parse_json
from s2s_serve.client_limit import header_key
from s2s_serve.refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s_serve.api import DirectRoute
    from s2s_serve.errors import Errors
    from s2s_serve.server import Server

JSON = "application/json"


class Direct:
    """Answers requests that have a valid key, if one is needed, and a valid body; others are FastAPI's to refuse."""

    def __init__(self, app: Any, server: Server, errors: Errors, routes: Mapping[str, DirectRoute]) -> None:
        self.app, self.server, self.errors, self.routes = app, server, errors, routes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        route = self.routes.get(scope["path"]) if scope["type"] == "http" else None
        if route is None or not self._is_plain(scope):
            return await self.app(scope, receive, send)
        request = Request(scope, receive)
        try:
            content = await request.body()
            try:
                body = route.body.model_validate(parse_json(content))
            except ValueError:
                return await self.app(scope, _again(content, receive), send)
            scope["route"] = route
            response = await route.answer(request, body)
        except (RefusedError, ClientDisconnect) as error:
            response = self.errors.response(error, scope["path"])
        return await response(scope, receive, send)

    def _is_plain(self, scope: Any) -> bool:
        headers = Headers(scope=scope)
        has_key = not self.server.keys or self.server.knows(header_key(headers))
        return scope["method"] == "POST" and headers.get("content-type") == JSON and has_key


def _again(content: bytes, receive: Any) -> Any:
    """The messages of a request whose body has been received."""
    messages = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive_again() -> Any:
        return messages.pop() if messages else await receive()

    return receive_again
