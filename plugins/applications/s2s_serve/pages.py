"""The pages: / to try what is served, and /docs, the reference of all APIs. All that they load is from this server."""

from __future__ import annotations

__all__ = ["add_pages"]

from importlib.resources import files

from fastapi import FastAPI, Response

from s2s_serve.refusal import RefusedError

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def add_pages(app: FastAPI, *, index: bool) -> None:
    """Add the routes; the page at / needs the server's own API.

    The files are read once, so that no name in a request is used as a path.
    """
    folder = files("s2s_serve").joinpath("page")
    contents = {file.name: file.read_bytes() for file in folder.iterdir()}

    def send(name: str) -> Response:
        return Response(contents[name], media_type=MEDIA_TYPES[name.rpartition(".")[2]], headers=SECURITY_HEADERS)

    if index:

        @app.get("/", include_in_schema=False)
        async def root() -> Response:
            return send("index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return send("docs.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in contents:
            raise RefusedError(404, "not_found", "no such part of a page")
        return send(name)
