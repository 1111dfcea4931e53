"""Errors as answers: each in the form of the API whose path was asked."""

from __future__ import annotations

__all__ = ["Errors"]

import logging
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from s2s_serve.api import ServeApi, error_body
from s2s_serve.connection import DisconnectedError
from s2s_serve.refusal import RefusedError, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastapi import FastAPI, Request, Response

logger = logging.getLogger(__name__)

CODES = {400: "bad_request", 404: "not_found", 405: "not_allowed"}
SHARED_ROUTES = ("/", "/docs", "/healthz", "/metrics")
"""Routes of no API"""


class Errors:
    """The answers to requests that fail."""

    def __init__(self, apis: Sequence[ServeApi]) -> None:
        self.apis = apis

    def answer(self, refusal: RefusedError, path: str) -> Response:
        """The answer to a refused request for a path."""
        headers = {"retry-after": str(refusal.retry_after)} if refusal.retry_after else {}
        return JSONResponse(self._form(path)(refusal), refusal.status, headers)

    def response(self, error: Exception, path: str) -> Response:
        """The answer to a request for a path whose route has raised an error."""
        return self.answer(_refusal(error), path)

    def add_handlers(self, app: FastAPI) -> None:
        """Answer whatever the routes of `app` raise, and requests for a path that has no route."""

        async def answer(request: Request, error: Exception) -> Response:
            if getattr(error, "status_code", 0) == 404 and "endpoint" not in request.scope:
                error = RefusedError(404, CODES[404], f"no such path; {self._paths()}")
            return self.response(error, request.url.path)

        for kind in (RefusedError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
            app.add_exception_handler(kind, answer)

    def _paths(self) -> str:
        """Which paths there are, in words."""
        routes = [route for api in self.apis for route in api.router.routes]
        own = dict.fromkeys(route.path for route in routes if isinstance(route, APIRoute) and route.include_in_schema)
        return f"there are {', '.join([*own, *SHARED_ROUTES])}; /docs describes them"

    def _form(self, path: str) -> Callable[[RefusedError], Any]:
        """The form of errors at a path: that of its API, or of the first API for a path of none."""
        if path in SHARED_ROUTES or not self.apis:
            return error_body
        matching = [api for api in self.apis if _belongs_to(path, api)] or self.apis[:1]
        return max(matching, key=lambda api: len(api.router.prefix)).error_body


def _belongs_to(path: str, api: ServeApi) -> bool:
    """Whether a path begins with an API's prefix; if it has none, as one of its routes."""
    if api.router.prefix:
        return path.startswith(api.router.prefix)
    routes = [route.path for route in api.router.routes if isinstance(route, APIRoute)]
    return path.split("/")[1:2] in [route.split("/")[1:2] for route in routes]


def _refusal(error: Exception) -> RefusedError:
    if isinstance(error, ClientDisconnect) or isinstance(error.__cause__, ClientDisconnect):
        return DisconnectedError()
    match error:
        case RefusedError():
            return error
        case RequestValidationError():
            return _invalid(error)
        case HTTPException():
            code = CODES.get(error.status_code, "error")
            return RefusedError(error.status_code, code, str(error.detail))
    logger.error("a bug: please report it", exc_info=error)
    return RefusedError(500, "bug", "a bug of the server, which has logged it")


def _invalid(error: RequestValidationError) -> RefusedError:
    first = error.errors()[0]
    place = _field(first["loc"])
    reason = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        place, reason = "", f"the body is no JSON: {first.get('ctx', {}).get('error', reason)}"
    elif not place:
        reason = "the body must be a JSON object, sent with content-type: application/json"
    message = f"{place[:200]}: {reason}" if place else reason
    return invalid(message.encode(errors="replace").decode())


def _field(location: Sequence[int | str]) -> str:
    """The place of an error in the body, without the alternative that was tried: ("body", "text", "list[…]", 0)."""
    named = [str(part) for part in location if part != "body"]
    return ".".join([*named[:1], *(part for part in named[1:] if "[" not in part)])
