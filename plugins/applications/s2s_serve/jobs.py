"""Files as jobs: each input line gives one output line, and finished lines survive a stop of the server.

All lines of an output are by the same model with the same options, and are those that were written: otherwise, the job
begins anew.
"""

from __future__ import annotations

__all__ = ["Jobs"]

import asyncio
import contextlib
import io
import json
import logging
import secrets
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, TypeVar

from s2s import CheckpointError, DataError, UserError
from s2s.compose import differences
from s2s_serve.engine import warm_up_text
from s2s_serve.generating import TextOptions, join_lines, outputs, read_text
from s2s_serve.job import Job, Lines, reason_of
from s2s_serve.job_files import OUTPUT, JobFiles
from s2s_serve.refusal import RefusedError, invalid
from s2s_serve.upload import Uploads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from s2s_serve import ServeConfig
    from s2s_serve.engine import Engine

logger = logging.getLogger(__name__)

CHUNK = 32
"""Lines that are decoded together and written at once"""
POLL = 1.0
"""Seconds between attempts to take over the folder of another server"""
REASON = 1000
"""Characters of a reason in the log"""
RETRIES = 3
"""Attempts at a line whose search fails, after which it stays empty"""

T = TypeVar("T")


class Jobs:
    """The jobs of a folder, processed one after another alongside all other requests.

    One server at a time processes those of a folder: another takes files and answers for all jobs, from the disk, and
    continues them once the first has stopped.
    """

    def __init__(self, folder: Path, engines: Mapping[str, Engine], config: ServeConfig) -> None:
        """engines: by the names of their runs."""
        self.files, self.engines = JobFiles(folder), engines
        self.uploads = Uploads(self.files, config)
        self.jobs: dict[str, Job] = {}
        """Those that this server processes; none while another server does"""
        self.waiting: asyncio.Queue[Job] = asyncio.Queue()
        self.threads: set[asyncio.Future[Any]] = set()

    @contextlib.asynccontextmanager
    async def processing(self) -> AsyncIterator[None]:
        """Process jobs while requests are answered, from now on or once another server has stopped."""
        self.files.open()
        try:
            await self._take_over()
        except CheckpointError as error:
            logger.warning("jobs wait, since another server processes them: %s", error)
        task = asyncio.create_task(self.process_all())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.gather(*self.threads, return_exceptions=True)  # the next server reads what they write
            self.files.close()

    async def _take_over(self) -> None:
        """Lock the folder, and queue what is in it; raises CheckpointError if another server processes it."""
        await self._in_thread(self.files.lock.acquire)
        for job in await self._in_thread(self.files.read_all):
            self.jobs[job.id] = job
            try:
                await self._resume(job)
            except Exception as error:
                self._fail(job, error)

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """The result of a function that may block; `processing` waits for it even if this is cancelled."""
        thread = asyncio.ensure_future(asyncio.to_thread(function, *args))
        self.threads.add(thread)
        thread.add_done_callback(self.threads.discard)
        return await asyncio.shield(thread)

    def find(self, number: str) -> Job:
        """A job by its number; raises RefusedError if there is none."""
        job = self.jobs.get(number)
        if self.files.exists(number):  # else deleted, maybe by another server
            with contextlib.suppress(DataError, OSError):
                return job or self.files.read(number)
        raise RefusedError(404, "not_found", "no such job")

    async def add(self, engine: Engine, body: AsyncIterator[bytes], n_expected: int = 0, **options: Any) -> Job:
        """Write a file as it arrives.

        n_expected: its bytes, if they are known; options: `split`, `raw` and `input_fields` of a `Job`.
        Raises RefusedError, and keeps nothing, for fields that the task refuses, a file too long, not UTF-8, or of JSON
        lines, and where there is no room.
        """
        self.uploads.check_room(n_expected)
        job = Job(id=secrets.token_hex(16), run=engine.name, made_of=_provenance(engine), **options)
        await read_text(engine, warm_up_text(engine.task), TextOptions(fields=job.input_fields))
        self.uploads.check_room(n_expected)  # others may have come meanwhile
        await self.uploads.receive(job, body)
        if self.files.lock.descriptor is not None:
            self.jobs[job.id] = job
            self.waiting.put_nowait(job)
        return job

    def delete(self, job: Job) -> None:
        """Delete a job; the lines being decoded are not written any more."""
        job.deleted = True
        self.jobs.pop(job.id, None)
        with contextlib.suppress(FileNotFoundError):  # by another server
            self.files.delete(job)

    async def open_output(self, job: Job) -> IO[bytes]:
        """The output of a job at its beginning; raises RefusedError if its lines are not those that were written."""
        try:
            return await asyncio.to_thread(self.files.open_output, job)
        except (DataError, OSError) as error:
            self.find(job.id)
            self._fail(job, error)
            text = "the output of this job is damaged; the next start of the server makes it again"
            raise RefusedError(503, "damaged", text) from None

    async def process_all(self) -> None:
        """Process the jobs until cancelled; one that fails does not stop the others."""
        while self.files.lock.descriptor is None:
            await asyncio.sleep(POLL)
            with contextlib.suppress(CheckpointError):
                await self._take_over()
        while True:
            job = await self.waiting.get()
            try:
                await self._process(job)
            except Exception as error:
                if not job.deleted and self.files.exists(job.id):
                    self._fail(job, error)

    def _fail(self, job: Job, error: Exception) -> None:
        """Log and report that a job cannot be processed, for example because the disk is full."""
        is_bug = not isinstance(error, OSError | UserError)
        job.error = reason_of(error)
        logger.error("job %s of %s has failed: %s", job.id, job.run, error, exc_info=error if is_bug else None)

    async def _process(self, job: Job) -> None:
        engine = self.engines[job.run]
        file = await self._in_thread(self.files.open_input, job)
        with io.TextIOWrapper(file, "utf-8-sig", newline="\n") as lines:  # without a BOM
            digest = await self._in_thread(self.files.check_output, job)
            next(islice(lines, job.output.n_lines, job.output.n_lines), None)
            while (chunk := list(islice(lines, CHUNK))) and not job.deleted:
                found = await asyncio.gather(*(self._line(engine, job, line.rstrip("\r\n")) for line in chunk))
                if job.deleted:
                    return
                hyps = [hyp or "" for hyp in found]
                output = await self._in_thread(self.files.append, job, hyps, digest)
                n_failed = job.n_failed + found.count(None)
                now = job.model_copy(update={"output": output, "n_failed": n_failed})
                await self._in_thread(self.files.save, now)  # before it is reported: others read it from the disk
                job.output, job.n_failed = output, n_failed

    async def _line(self, engine: Engine, job: Job, line: str) -> str | None:
        """The output of a line; None if there is none."""
        options, reason = job.options, ""
        for _ in range(RETRIES):
            try:
                sentences = await read_text(engine, line, options)
                found = [output async for output in outputs(engine, sentences, options)]
                (joined,) = await join_lines(engine, sentences, found, 1)
                return " ".join(joined.hyp.split("\n"))
            except RefusedError as refused:
                reason = str(refused)
                if refused.status == invalid("").status:
                    break
                await asyncio.sleep(1.0)
        job.refusal = job.refusal or reason
        return None

    async def _resume(self, job: Job) -> None:
        """Queue a job of an earlier server unless it is done; with lines that are not by this model, it begins anew."""
        if job.run not in self.engines:
            return
        provenance, why = _provenance(self.engines[job.run]), ""
        if not job.is_done and (changed := differences(job.made_of, provenance)):
            why = ", ".join(f"{key} was {old!r} and is {new!r}" for key, (old, new) in changed.items())
        try:
            await self._in_thread(self.files.check_output, job)
        except (DataError, OSError) as error:
            why = str(error)
        if why:
            logger.warning("job %s of %s begins anew: %s", job.id, job.run, why[:REASON])
            self._begin_anew(job, provenance)
        if not job.is_done:
            self.waiting.put_nowait(job)

    def _begin_anew(self, job: Job, provenance: dict[str, Any]) -> None:
        self.files.path(job, OUTPUT).unlink(missing_ok=True)  # before it is recorded as made by this model
        job.output, job.n_failed = Lines(), 0
        job.refusal = ""
        job.made_of = provenance
        self.files.save(job)


def _provenance(engine: Engine) -> dict[str, Any]:
    """What the outputs of an engine depend on, as it is read from job.json."""
    provenance: dict[str, Any] = json.loads(json.dumps(engine.provenance, default=str))
    return provenance
