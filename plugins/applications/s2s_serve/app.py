"""The application: routes, limits on bodies, keys, and a uniform error format."""

from __future__ import annotations

__all__ = ["create_app"]

import logging
import time
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException

import s2s
from s2s_serve.body_limit import BodyLimit
from s2s_serve.job_api import job_api
from s2s_serve.libretranslate import libretranslate
from s2s_serve.own_api import own_api
from s2s_serve.refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from s2s_serve.server import Server

logger = logging.getLogger(__name__)

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
ERROR_CODES = {400: "bad_request", 404: "not_found", 405: "not_allowed"}


def create_app(server: Server) -> FastAPI:
    """The application; no route takes a file system path, and no page loads anything from the network."""
    about = "Outputs of trained sequence-to-sequence models."
    app = FastAPI(title="s2s-serve", version=s2s.__version__, description=about, docs_url=None, redoc_url=None)
    app.router.lifespan_context = server.lifespan
    dependencies = [Depends(_require_key(server))]
    app.include_router(own_api(server), dependencies=dependencies)
    app.include_router(job_api(server), dependencies=dependencies)
    app.include_router(libretranslate(server))
    _add_state(app, server, dependencies)
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)
    if server.config.cors:
        app.add_middleware(CORSMiddleware, allow_origins=server.config.cors, allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(BodyLimit, max_bytes=server.config.max_chars * 8 + 65_536)
    app.add_middleware(Timing, server=server)
    return app


def _add_state(app: FastAPI, server: Server, dependencies: list[Any]) -> None:
    page = files("s2s_serve").joinpath("page.html").read_text(encoding="utf-8")

    @app.get("/", summary="The page", response_class=HTMLResponse)
    async def index() -> HTMLResponse:
        return HTMLResponse(page, headers=SECURITY_HEADERS)

    @app.get("/healthz", summary="Whether every run has answered a sentence")
    async def healthz() -> JSONResponse:
        status, body = server.state()
        return JSONResponse(body, status)

    @app.get("/metrics", summary="Counts for Prometheus", dependencies=dependencies, response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(server.metrics.render(), media_type="text/plain; version=0.0.4")


def _require_key(server: Server) -> Callable[[Request], Awaitable[None]]:
    async def check(request: Request) -> None:
        """Raise RefusedError unless the request carries a valid key or none is needed."""
        if not server.keys:
            return
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        key = token.strip() if kind.lower() == "bearer" else request.headers.get("x-api-key", "")
        if not server.knows(key):
            raise RefusedError(401, "key", "API key required: Authorization: Bearer KEY")

    return check


class Timing:
    """Counts and times requests by route."""

    def __init__(self, app: Any, server: Server) -> None:
        self.app, self.metrics = app, server.metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun, status = time.monotonic(), "500"

        async def record_status(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self.app(scope, receive, record_status)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(route, status).inc()
            self.metrics.latency.labels(route).observe(time.monotonic() - begun)
        return None


def _error(request: Request, status: int, code: str, message: str, retry_after: int = 0) -> Response:
    """An error response, in LibreTranslate's format for its routes and in our own for all others."""
    headers = {"retry-after": str(retry_after)} if retry_after else {}
    own = request.url.path.startswith("/v1") or request.url.path in ("/", "/metrics", "/healthz")
    body = {"error": {"code": code, "message": message} if own else message}
    return JSONResponse(body, status, headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return _error(request, error.status, error.code, str(error), error.retry_after)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = _field(first["loc"])
    reason = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        place, reason = "", f"the body is no JSON: {first.get('ctx', {}).get('error', reason)}"
    if not place and first["type"] != "json_invalid":
        reason = "the body must be a JSON object, sent with content-type: application/json"
    message = f"{place[:200]}: {reason}" if place else reason
    return _error(request, 422, "invalid", message.encode(errors="replace").decode())


def _field(location: Sequence[int | str]) -> str:
    """The place of an error in the body, without the alternative that was tried: ("body", "text", "list[…]", 0)."""
    named = [str(part) for part in location if part != "body"]
    return ".".join([*named[:1], *(part for part in named[1:] if "[" not in part)])


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = ERROR_CODES.get(error.status_code, "error")
    return _error(request, error.status_code, code, str(error.detail))


async def _bug(request: Request, error: Exception) -> Response:
    logger.error("a bug: please report it", exc_info=error)
    return _error(request, 500, "bug", "a bug of the server, which has logged it")
