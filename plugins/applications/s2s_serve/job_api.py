"""Files as jobs: the routes below /v1/jobs of the server's own API."""

from __future__ import annotations

__all__ = ["add_job_routes"]

from typing import IO, TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from s2s_serve.refusal import RefusedError
from s2s_serve.schemas import JsonFields, file_body, read_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s_serve.jobs import Jobs
    from s2s_serve.server import Server


BLOCK = 1 << 16
"""Bytes sent at once"""


def add_job_routes(api: APIRouter, server: Server) -> None:
    """Add the routes; jobs are refused if no folder is configured for them."""

    def jobs() -> Jobs:
        if server.jobs is None:
            raise RefusedError(404, "no_jobs", "this server takes no files; start it with jobs=FOLDER")
        return server.jobs

    body = file_body("text/plain")

    @api.post("/jobs", tags=["jobs"], status_code=202, summary="Translate a text file", openapi_extra=body)
    async def add(
        request: Request,
        run: str = "",
        split: bool = True,
        raw: bool = False,
        input_fields: JsonFields = "{}",
    ) -> dict[str, Any]:
        """The body is the file, a line an input; the answer has the `id` of the job."""
        engine, fields = server.engine(run), read_fields(input_fields)
        length = request.headers.get("content-length", "")
        n_expected = int(length) if length.isdecimal() else 0
        job = await jobs().add(engine, request.stream(), n_expected, split=split, raw=raw, input_fields=fields)
        return job.state()

    @api.get("/jobs/{number}", tags=["jobs"], summary="How far a job is")
    async def state(number: str) -> dict[str, Any]:
        return jobs().find(number).state()

    @api.get("/jobs/{number}/output", tags=["jobs"], summary="The lines that are done", response_model=None)
    async def output(number: str) -> Response:
        job = jobs().find(number)
        if not (n_bytes := job.output.n_bytes):
            return Response(media_type="text/plain")
        file = await jobs().open_output(job)  # may be deleted, or grow, while it is sent
        headers = {"content-length": str(n_bytes)}
        return StreamingResponse(_first(file, n_bytes), media_type="text/plain", headers=headers)

    @api.delete("/jobs/{number}", tags=["jobs"], status_code=204, summary="Forget a job")
    async def delete(number: str) -> None:
        jobs().delete(jobs().find(number))


def _first(file: IO[bytes], n: int) -> Iterator[bytes]:
    """The first `n` bytes of a file, which is then closed."""
    with file:
        for begin in range(0, n, BLOCK):
            yield file.read(min(BLOCK, n - begin))
