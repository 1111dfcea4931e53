"""Files of jobs as they arrive: written to the folder of this server for uploads, within the limits on all jobs."""

from __future__ import annotations

__all__ = ["Uploads"]

import asyncio
import codecs
import hashlib
import json
import os
import shutil
from typing import TYPE_CHECKING

from s2s.io import open_own
from s2s_serve.job import Lines
from s2s_serve.job_files import INPUT
from s2s_serve.refusal import busy, invalid, too_large

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from s2s_serve import ServeConfig
    from s2s_serve.job import Job
    from s2s_serve.job_files import JobFiles

RETRY = 60
"""Seconds after which a client may send a file again for which there was no room"""


class Uploads:
    """Receives the files of jobs, as many and as large as there is room for."""

    def __init__(self, files: JobFiles, config: ServeConfig) -> None:
        self.files, self.config = files, config
        self.n_bytes = 0
        """Those that all jobs need: counted when an upload begins, with what has arrived since"""

    async def receive(self, job: Job, body: AsyncIterator[bytes]) -> None:
        """Write the file of a job as it arrives, and make the job of it.

        Raises RefusedError, and keeps nothing, for a file too long, not UTF-8, or of JSON lines.
        """
        upload = self.files.uploads / job.id
        upload.mkdir(mode=0o700)
        try:
            job.input = await self._write(upload / INPUT, body)
            await asyncio.to_thread(_check_text, upload / INPUT)
            await asyncio.to_thread(self.files.publish, job, upload)
        except BaseException:
            shutil.rmtree(upload)
            raise

    def check_room(self, n_expected: int) -> None:
        """Raise RefusedError unless one more job is allowed, and there is room for a file of so many bytes."""
        if n_expected > self.config.max_file:
            raise too_large(f"the file is longer than {self.config.max_file:,} bytes")
        n_jobs, self.n_bytes = self.files.count()
        if n_jobs >= self.config.max_jobs:
            raise busy(f"there are {n_jobs:,} jobs, as many as max_jobs allows; delete some that are done", RETRY)
        self._reserve(n_expected)
        self.n_bytes -= 2 * n_expected

    def _reserve(self, n_bytes: int) -> None:
        """Count bytes of an upload, and as many of its output; raises RefusedError if there is no room for them."""
        self.n_bytes += 2 * n_bytes
        if self.n_bytes > self.config.max_jobs_size:
            limit = f"{self.config.max_jobs_size:,} bytes (max_jobs_size)"
            raise busy(f"with its output, the file would not fit into the {limit} of all jobs; delete some", RETRY)

    async def _write(self, path: Path, body: AsyncIterator[bytes]) -> Lines:
        """What was written; raises RefusedError for a text that is empty, too long or not UTF-8."""
        decoder, digest = codecs.getincrementaldecoder("utf-8")(), hashlib.sha256()
        n_bytes = n_lines = 0
        last = b"\n"
        with open_own(path, "wb") as file:
            async for chunk in body:
                n_bytes += len(chunk)
                if n_bytes > self.config.max_file:
                    raise too_large(f"the file is longer than {self.config.max_file:,} bytes")
                self._reserve(len(chunk))
                _check_utf8(decoder, chunk)
                n_lines, last = n_lines + chunk.count(b"\n"), chunk[-1:] or last
                digest.update(chunk)
                file.write(chunk)
                file.flush()  # `JobFiles.count` finds it on the disk
            _check_utf8(decoder, b"", final=True)
            file.flush()
            os.fsync(file.fileno())
        if not n_bytes:
            raise invalid("the file is empty; send its text as the body")
        return Lines(n_lines=n_lines + (last != b"\n"), n_bytes=n_bytes, sha256=digest.hexdigest())


def _check_text(path: Path) -> None:
    """Raise RefusedError for a file of JSON lines, whose braces and keys would be translated with its texts."""
    with path.open(encoding="utf-8-sig") as lines:
        first = next(filter(str.strip, lines), "")
    try:
        is_object = isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return
    if is_object:
        raise invalid("the file has JSON lines; send the texts alone, one a line, with input_fields for all of them")


def _check_utf8(decoder: codecs.IncrementalDecoder, chunk: bytes, *, final: bool = False) -> None:
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError:
        raise invalid("the file is not UTF-8") from None
