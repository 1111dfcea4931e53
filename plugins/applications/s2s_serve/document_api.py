"""A document in, the translated document out: /v1/documents of the server's own API."""

from __future__ import annotations

__all__ = ["add_document_route"]

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response

from s2s_serve.connection import cancel_on_disconnect
from s2s_serve.documents import document_formats, document_outputs, read_document
from s2s_serve.generating import TextOptions
from s2s_serve.refusal import invalid
from s2s_serve.schemas import JsonFields, file_body, read_fields

if TYPE_CHECKING:
    from s2s_serve.server import Server
Format = Annotated[str, Query(description="Name of the document's format, as GET /v1/runs lists them.")]


def add_document_route(api: APIRouter, server: Server) -> None:
    """Add the route."""
    formats = document_formats(server.plugins.registry)

    body = file_body("application/octet-stream")

    @api.post("/documents", summary="Translate a document", response_class=Response, openapi_extra=body)
    async def translate(
        request: Request,
        format: Format,
        run: str = "",
        input_fields: JsonFields = "{}",
    ) -> Response:
        """The body is the document; so is that of the answer."""
        if format not in formats:
            raise invalid(f"format: no such format; there are {', '.join(formats)}")
        engine, options = server.engine(run), TextOptions(fields=read_fields(input_fields))
        data = await request.body()

        async def work() -> Response:
            async with server.working(limit=server.config.document_deadline):
                document = await read_document(formats[format], data)
                (output,) = await document_outputs(engine, document, options)
            return Response(output, media_type=request.headers.get("content-type") or "application/octet-stream")

        return await cancel_on_disconnect(request, work(), server.metrics)
