"""Files as jobs: the routes below /v1/jobs of the server's own API."""

from __future__ import annotations

__all__ = ["add_job_routes"]

from typing import IO, TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter, ValidationError

from s2s.io import parse_json
from s2s_serve.refusal import RefusedError, invalid
from s2s_serve.schemas import INPUT_FIELDS, InputFields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s_serve.jobs import Jobs
    from s2s_serve.server import Server


BLOCK = 1 << 16
"""Bytes sent at once"""
JSON_FIELDS = f"{INPUT_FIELDS} As a JSON object."
FIELDS = TypeAdapter(InputFields)


def add_job_routes(api: APIRouter, server: Server) -> None:
    """Add the routes; jobs are refused if no folder is configured for them."""

    def jobs() -> Jobs:
        if server.jobs is None:
            raise RefusedError(404, "no_jobs", "this server takes no files; start it with jobs=FOLDER")
        return server.jobs

    @api.post("/jobs", tags=["jobs"], status_code=202, summary="Send a text file as the body; a line is an input")
    async def add(
        request: Request,
        run: str = "",
        split: bool = True,
        raw: bool = False,
        input_fields: Annotated[str, Query(description=JSON_FIELDS)] = "{}",
    ) -> dict[str, Any]:
        engine, fields = server.engine(run), _input_fields(input_fields)
        job = await jobs().add(engine, request.stream(), split=split, raw=raw, input_fields=fields)
        return job.state()

    @api.get("/jobs/{number}", tags=["jobs"], summary="How far a job is")
    async def state(number: str) -> dict[str, Any]:
        return jobs().find(number).state()

    @api.get("/jobs/{number}/output", tags=["jobs"], summary="The lines that are done", response_model=None)
    async def output(number: str) -> Response:
        job = jobs().find(number)
        if not job.n_bytes:
            return Response(media_type="text/plain")
        file = jobs().path(job, "output.txt").open("rb")  # may be deleted, or grow, while it is sent
        headers = {"content-length": str(job.n_bytes)}
        return StreamingResponse(_first(file, job.n_bytes), media_type="text/plain", headers=headers)

    @api.delete("/jobs/{number}", tags=["jobs"], status_code=204, summary="Forget a job")
    async def delete(number: str) -> None:
        jobs().delete(jobs().find(number))


def _input_fields(text: str) -> dict[str, Any]:
    """The fields that a JSON object names; raises RefusedError for another text."""
    try:
        return FIELDS.validate_python(parse_json(text))
    except ValidationError as error:
        raise invalid(f"input_fields: {error.errors()[0]['msg']}") from None
    except ValueError as error:
        raise invalid(f"input_fields: {error}") from None


def _first(file: IO[bytes], n: int) -> Iterator[bytes]:
    """The first `n` bytes of a file, which is then closed."""
    with file:
        for begin in range(0, n, BLOCK):
            yield file.read(min(BLOCK, n - begin))
