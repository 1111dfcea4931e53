"""A document in, the translated document out: /v1/documents of the server's own API."""

from __future__ import annotations

__all__ = ["add_document_route"]

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from s2s_serve.connection import cancel_on_disconnect
from s2s_serve.documents import document_formats, document_outputs, read_document
from s2s_serve.generating import TextOptions
from s2s_serve.refusal import invalid

if TYPE_CHECKING:
    from s2s_serve.server import Server


def add_document_route(api: APIRouter, server: Server) -> None:
    """Add the route."""
    formats = document_formats(server.plugins.registry)

    @api.post("/documents", tags=["documents"], summary="Send a document as the body", response_class=Response)
    async def translate(request: Request, format: str, run: str = "") -> Response:
        if format not in formats:
            raise invalid(f"format: no such format; there are {', '.join(formats)}")
        engine, data = server.engine(run), await request.body()

        async def work() -> Response:
            async with server.working(limit=server.config.document_deadline):
                document = await read_document(formats[format], data)
                (output,) = await document_outputs(engine, document, TextOptions())
            return Response(output, media_type=request.headers.get("content-type") or "application/octet-stream")

        return await cancel_on_disconnect(request, work(), server.metrics)
