"""The application: the routes of all APIs, limits on bodies, keys, and errors in the form of each API."""

from __future__ import annotations

__all__ = ["create_app"]

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPBearer

import s2s
from s2s_serve.body_limit import BodyLimit
from s2s_serve.client_limit import ClientLimit, header_key
from s2s_serve.direct import Direct
from s2s_serve.errors import Errors
from s2s_serve.jobs import Jobs
from s2s_serve.own_site import OwnSite
from s2s_serve.pages import add_pages
from s2s_serve.refusal import RefusedError, unavailable
from s2s_serve.server_log import log_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from s2s_serve.api import ServeApi
    from s2s_serve.server import Server


def create_app(server: Server) -> FastAPI:
    """The application; no route takes a file system path, and no page loads anything from the network."""
    about = "Outputs of trained sequence-to-sequence models."
    app = FastAPI(
        title="s2s-serve",
        version=s2s.__version__,
        description=about,
        docs_url=None,
        redoc_url=None,
        lifespan=lambda _: _lifespan(server),
    )
    build = server.plugins.registry.build_default
    apis: list[ServeApi] = [build("serve_api", name, server) for name in server.config.apis]
    needs_key = [Depends(HTTPBearer(auto_error=False)), Depends(_require_key(server))] if server.keys else []
    for api in apis:
        app.include_router(api.router, dependencies=None if api.checks_keys else needs_key)
    _add_shared_routes(app, server, needs_key)
    errors = Errors(apis)
    errors.add_handlers(app)
    direct = {route.path: route for api in apis for route in api.direct}
    app.add_middleware(Direct, server=server, errors=errors, routes=direct)
    app.add_middleware(ClientLimit, server=server, errors=errors)
    if server.config.cors:
        app.add_middleware(CORSMiddleware, allow_origins=server.config.cors, allow_methods=["*"], allow_headers=["*"])
    limits = {"max_bytes": server.config.max_chars * 8 + 65_536, "max_document": server.config.max_document}
    app.add_middleware(BodyLimit, errors=errors, **limits)
    app.add_middleware(OwnSite, config=server.config, errors=errors)
    app.add_middleware(Timing, server=server, errors=errors)
    return app


@contextlib.asynccontextmanager
async def _lifespan(server: Server) -> AsyncIterator[None]:
    """Start all engines and the jobs, and close the engines after the last request."""
    engines = server.engines.values()
    await asyncio.gather(*(asyncio.to_thread(engine.start) for engine in engines))
    async with contextlib.AsyncExitStack() as stack:
        if server.config.jobs:
            server.jobs = Jobs(Path(server.config.jobs), server.engines, server.config)
            await stack.enter_async_context(server.jobs.processing())
        yield
    await asyncio.gather(*(asyncio.to_thread(engine.close) for engine in engines))


def _add_shared_routes(app: FastAPI, server: Server, needs_key: list[Any]) -> None:
    add_pages(app, index="own" in server.config.apis)

    @app.get("/healthz", tags=["server"], summary="Whether every run has answered a sentence")
    async def healthz() -> JSONResponse:
        status, body = server.state()
        return JSONResponse(body, status)

    @app.get(
        "/metrics",
        tags=["server"],
        summary="Counts for Prometheus",
        dependencies=needs_key,
        response_class=PlainTextResponse,
    )
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(server.metrics.render(), media_type="text/plain; version=0.0.4")


def _require_key(server: Server) -> Callable[[Request], Awaitable[None]]:
    async def check(request: Request) -> None:
        """Raise RefusedError unless the request carries a valid key."""
        if not server.knows(header_key(request.headers)):
            raise RefusedError(401, "key", "API key required: Authorization: Bearer KEY")

    return check


class Timing:
    """Counts and times requests by route."""

    def __init__(self, app: Any, server: Server, errors: Errors) -> None:
        self.app, self.metrics, self.errors = app, server.metrics, errors

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun, status = time.monotonic(), ""

        async def record_status(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self.app(scope, receive, record_status)
        except asyncio.CancelledError:  # by uvicorn, when the seconds of `drain` are over
            if not status:
                ending = unavailable("the server is ending")
                await self.errors.answer(ending, scope["path"])(scope, receive, record_status)
        finally:
            status = status or "500"
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(route, status).inc()
            seconds = time.monotonic() - begun
            self.metrics.latency.labels(route).observe(seconds)
            log_request(scope["method"], route, status, seconds)
        return None
