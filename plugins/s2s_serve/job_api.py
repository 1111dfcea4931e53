"""Files as jobs under /v1/jobs."""

from __future__ import annotations

__all__ = ["job_api"]

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse

from s2s_serve.refusal import RefusedError

if TYPE_CHECKING:
    from s2s_serve.jobs import Jobs
    from s2s_serve.server import Server


def job_api(server: Server) -> APIRouter:
    """The routes; jobs are refused if no folder is configured for them."""
    api = APIRouter(prefix="/v1/jobs", tags=["jobs"])

    def jobs() -> Jobs:
        if server.jobs is None:
            raise RefusedError(404, "no_jobs", "this server takes no files; start it with jobs=FOLDER")
        return server.jobs

    @api.post("", status_code=202, summary="Send a text file as the body; a line is an input")
    async def add(request: Request, run: str = "", split: bool = True, raw: bool = False) -> dict[str, Any]:
        job = await jobs().add(server.engine(run), request.stream(), split=split, raw=raw)
        return job.state()

    @api.get("/{number}", summary="How far a job is")
    async def state(number: str) -> dict[str, Any]:
        return jobs().find(number).state()

    @api.get("/{number}/output", summary="The lines that are done", response_model=None)
    async def output(number: str) -> Response:
        job = jobs().find(number)
        path = jobs().path(job, "output.txt")
        return FileResponse(path, media_type="text/plain") if path.exists() else Response(media_type="text/plain")

    @api.delete("/{number}", status_code=204, summary="Forget a job")
    async def delete(number: str) -> None:
        jobs().delete(jobs().find(number))

    return api
