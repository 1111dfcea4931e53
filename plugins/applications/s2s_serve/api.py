"""What an API of the server is: its routes, and how it writes their errors."""

from __future__ import annotations

__all__ = ["DirectRoute", "ServeApi", "error_body"]

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from fastapi import APIRouter, Request, Response
    from pydantic import BaseModel

    from s2s_serve.refusal import RefusedError


def error_body(error: RefusedError) -> Any:
    """The JSON body of an error, unless an API has a form of its own."""
    return {"error": {"code": error.code, "message": str(error)}}


class DirectRoute(NamedTuple):
    """A route with the method POST whose only parameters are the request and its body."""

    path: str
    body: type[BaseModel]
    answer: Callable[[Request, Any], Awaitable[Response]]


class ServeApi(NamedTuple):
    """What a factory of the group `serve_api` returns."""

    router: APIRouter
    """The routes. A path's errors have the form of the API with the longest prefix that the path begins with; of an API
    without a prefix, at its own routes; of the first API at all other paths"""
    error_body: Callable[[RefusedError], Any] = error_body
    """The JSON body of an error"""
    checks_keys: bool = False
    """Whether the routes check API keys themselves; else, if the server has keys, a request without one is refused"""
    direct: Sequence[DirectRoute] = ()
    """Routes of the router whose valid requests are answered without FastAPI"""
