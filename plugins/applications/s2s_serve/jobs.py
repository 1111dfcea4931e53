"""Files as jobs: each input line gives one output line, and finished lines survive a stop of the server.

A job is a folder named by a random number of the server's own; no name from a request reaches the file system.
    job.json  input.txt  output.txt: whole lines, synced after each chunk, so that a job resumes where it stopped
All lines of an output are by the same model with the same options: otherwise, a resumed job begins anew.
"""

from __future__ import annotations

__all__ = ["Jobs"]

import asyncio
import contextlib
import json
import logging
import os
import re
import secrets
import shutil
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from s2s import CheckpointError, UserError
from s2s.compose import differences
from s2s.io import FileLock, open_own, write_file
from s2s_serve.engine import warm_up_text
from s2s_serve.generating import TextOptions, join_lines, outputs, read_text
from s2s_serve.job import Job, count_written, reason_of, recorded
from s2s_serve.refusal import RefusedError, invalid
from s2s_serve.upload import check_text, write_upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from s2s_serve.engine import Engine

logger = logging.getLogger(__name__)

CHUNK = 32
"""Lines that are decoded together and written at once"""
POLL = 1.0
"""Seconds between attempts to take over the folder of another server"""
ID = re.compile(r"[0-9a-f]{32}")
RETRIES = 3
"""Attempts at a line whose search fails, after which it stays empty"""


T = TypeVar("T")


class Jobs:
    """The jobs of a folder, processed one after another alongside all other requests.

    One server at a time processes those of a folder: another takes files and answers for all jobs, from the disk, and
    continues them once the first has stopped.
    """

    def __init__(self, folder: Path, engines: Mapping[str, Engine], max_bytes: int) -> None:
        """engines: by the names of their runs; max_bytes: maximum size of a file."""
        self.folder, self.engines, self.max_bytes = folder, engines, max_bytes
        self.jobs: dict[str, Job] = {}
        """Those that this server processes; none while another server does"""
        self.waiting: asyncio.Queue[Job] = asyncio.Queue()
        self.threads: set[asyncio.Future[Any]] = set()
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(folder / ".lock")

    @contextlib.asynccontextmanager
    async def processing(self) -> AsyncIterator[None]:
        """Process jobs while requests are answered, from now on or once another server has stopped."""
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
            await asyncio.gather(*self.threads, return_exceptions=True)  # the next server counts the lines
            self.lock.release()

    async def _take_over(self) -> None:
        """Lock the folder, and queue what is in it; raises CheckpointError if another server processes it."""
        await self._in_thread(self.lock.acquire)
        for path in sorted(self.folder.glob("*/job.json"), key=lambda path: path.stat().st_mtime):
            job = recorded(path)
            if job is None:
                continue
            self.jobs[job.id] = job
            try:
                self._resume(job)
            except (OSError, UserError) as error:
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
        if job is None and ID.fullmatch(number):  # of another server
            job = self._read(number)
        if job is None or not (self.folder / number).is_dir():  # deleted by another server
            raise RefusedError(404, "not_found", "no such job")
        return job

    def _read(self, number: str) -> Job | None:
        """A job as it is on the disk."""
        path = self.folder / number / "job.json"
        job = recorded(path) if path.exists() else None
        if job is not None:
            job.n_done, job.n_bytes = count_written(self.path(job, "output.txt"))
        return job

    async def add(
        self, engine: Engine, body: AsyncIterator[bytes], *, split: bool, raw: bool, input_fields: dict[str, Any]
    ) -> Job:
        """Write a file as it arrives.

        Raises RefusedError, and keeps nothing, for fields that the task refuses, and a file too long, not UTF-8, or of
        JSON lines.
        """
        await read_text(engine, warm_up_text(engine.task), TextOptions(fields=input_fields))
        made_of = _provenance(engine)
        job = Job(secrets.token_hex(16), engine.name, split, raw, made_of=made_of, input_fields=input_fields)
        path = self.path(job, "input.txt")
        path.parent.mkdir(mode=0o700)
        try:
            job.n_lines = await write_upload(path, body, self.max_bytes)
            await asyncio.to_thread(check_text, path)
            self._save(job)
        except BaseException:
            shutil.rmtree(path.parent)
            raise
        if self.lock.descriptor is not None:
            self.jobs[job.id] = job
            self.waiting.put_nowait(job)
        return job

    def delete(self, job: Job) -> None:
        """Delete a job; the lines being decoded are not written any more."""
        job.deleted = True
        self.jobs.pop(job.id, None)
        shutil.rmtree(self.folder / job.id)

    def path(self, job: Job, name: str) -> Path:
        """A file of a job."""
        return self.folder / job.id / name

    async def process_all(self) -> None:
        """Process the jobs until cancelled; one that fails does not stop the others."""
        while self.lock.descriptor is None:
            await asyncio.sleep(POLL)
            with contextlib.suppress(CheckpointError):
                await self._take_over()
        while True:
            job = await self.waiting.get()
            try:
                await self._process(job)
            except Exception as error:
                if not job.deleted and (self.folder / job.id).is_dir():
                    self._fail(job, error)

    def _fail(self, job: Job, error: Exception) -> None:
        """Log and report that a job cannot be processed, for example because the disk is full."""
        is_bug = not isinstance(error, OSError | UserError)
        job.error = reason_of(error)
        logger.error("job %s of %s has failed: %s", job.id, job.run, error, exc_info=error if is_bug else None)

    async def _process(self, job: Job) -> None:
        engine = self.engines[job.run]
        with self.path(job, "input.txt").open(encoding="utf-8-sig", newline="\n") as lines:  # without a BOM
            next(islice(lines, job.n_done, job.n_done), None)
            while (chunk := list(islice(lines, CHUNK))) and not job.deleted:
                found = await asyncio.gather(*(self._line(engine, job, line.rstrip("\r\n")) for line in chunk))
                if job.deleted:
                    return
                path, hyps = self.path(job, "output.txt"), [hyp or "" for hyp in found]
                job.n_bytes = await self._in_thread(_append, path, hyps)
                job.n_done += len(chunk)
                if n_failed := found.count(None):
                    job.n_failed += n_failed
                    self._save(job)

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

    def _resume(self, job: Job) -> None:
        """Queue a job of an earlier server unless it is done; if its lines are not by this model, it begins anew."""
        output = self.path(job, "output.txt")
        job.n_done, job.n_bytes = count_written(output)
        if output.exists():
            with open_own(output, "r+b") as file:
                file.truncate(job.n_bytes)
        if job.n_done >= job.n_lines or job.run not in self.engines:
            return
        provenance = _provenance(self.engines[job.run])
        if changed := differences(job.made_of, provenance):
            which = ", ".join(f"{key} was {old!r} and is {new!r}" for key, (old, new) in changed.items())
            why = which if job.made_of else "an earlier version did not record what its lines were made with"
            logger.warning("job %s of %s begins anew: %s", job.id, job.run, why)
            self._begin_anew(job, provenance)
        self.waiting.put_nowait(job)

    def _begin_anew(self, job: Job, provenance: dict[str, Any]) -> None:
        self.path(job, "output.txt").unlink(missing_ok=True)  # before it is recorded as made by this model
        job.n_done = job.n_bytes = job.n_failed = 0
        job.refusal = ""
        job.made_of = provenance
        self._save(job)

    def _save(self, job: Job) -> None:
        write_file(self.path(job, "job.json"), json.dumps(asdict(job)))


def _provenance(engine: Engine) -> dict[str, Any]:
    """What the outputs of an engine depend on, as it is read from job.json."""
    provenance: dict[str, Any] = json.loads(json.dumps(engine.provenance, default=str))
    return provenance


def _append(path: Path, lines: list[str]) -> int:
    """Append lines; the size of the file, in bytes."""
    with open_own(path, "a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size
