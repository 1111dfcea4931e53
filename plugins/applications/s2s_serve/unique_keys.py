"""Routes that refuse a JSON body in which an object has one key twice."""

from __future__ import annotations

__all__ = ["UniqueKeysRoute"]

import json
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from s2s.io import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class _UniqueKeysRequest(Request):
    async def json(self) -> Any:
        try:
            return parse_json(await self.body())
        except json.JSONDecodeError:
            raise
        except ValueError as error:  # as FastAPI expects it, which tells the client
            raise json.JSONDecodeError(str(error), "", 0) from None


class UniqueKeysRoute(APIRoute):
    """A route whose bodies are read by `parse_json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As that of FastAPI, for a request of the other class."""
        handle = super().get_route_handler()

        async def handle_unique(request: Request) -> Response:
            return await handle(_UniqueKeysRequest(request.scope, request.receive))

        return handle_unique
