"""The folder of the jobs: their files, which are checked before they are believed, and the uploads of each server.

    ID/job.json  input.txt  output.txt      a job, named by a random number of the server's own
    .uploads-N/.lock  ID/                   what a server receives or deletes at the moment; removed once it has ended
A job appears, and disappears, by a rename. Its record has size, lines and sha256 of the input, and of the output lines
that are done.
"""

from __future__ import annotations

__all__ = ["INPUT", "OUTPUT", "JobFiles"]

import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import stat
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from pydantic import ValidationError

from s2s import DataError, UserError
from s2s.io import FileLock, dump_record, open_own, read_record, write_file
from s2s_serve.job import Job, Lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

RECORD, INPUT, OUTPUT = "job.json", "input.txt", "output.txt"
ID = re.compile(r"[0-9a-f]{32}")
UPLOADS = ".uploads-"
MAX_RECORD = 1 << 20
"""Bytes of a record, whose fields came in the head of a request"""
BLOCK = 1 << 20


class JobFiles:
    """What is on disk of all jobs; no name from a request reaches it, but a number that `ID` matches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(folder / ".lock")
        """Of the server that processes the jobs"""
        self.uploads = folder / f"{UPLOADS}{secrets.token_hex(8)}"
        self.uploads_lock = FileLock(self.uploads / ".lock")

    def check(self) -> None:
        """Raise DataError or OSError if the folder cannot be locked, and CheckpointError while another server has."""
        self.lock.acquire()
        self.lock.release()

    def open(self) -> None:
        """Make the folder for uploads, and remove those of servers that were killed."""
        for path in self.folder.glob(f"{UPLOADS}*"):
            with suppress(OSError, UserError):  # in use by another server, or none of a server
                _remove_abandoned(path)
        self.uploads.mkdir(mode=0o700)
        self.uploads_lock.acquire()

    def close(self) -> None:
        """Leave the folder to other servers."""
        self.lock.release()
        self.uploads_lock.release()
        shutil.rmtree(self.uploads, ignore_errors=True)

    def path(self, job: Job, name: str) -> Path:
        """A file of a job."""
        return self.folder / job.id / name

    def exists(self, number: str) -> bool:
        """Whether there is a job of this number, damaged or not."""
        return bool(ID.fullmatch(number)) and os.path.lexists(self.folder / number)

    def read_all(self) -> list[Job]:
        """All jobs, oldest first; one whose record is damaged is left out, with a warning, and stays as it is."""
        jobs = []
        for path in self.folder.iterdir():
            is_job = ID.fullmatch(path.name) or (path.name[0] != "." and os.path.lexists(path / RECORD))
            try:
                jobs += [self.read(path.name)] if is_job else []
            except (DataError, OSError) as error:
                logger.warning("%s is damaged, so that this job is left out: %s", path / RECORD, error)
        return sorted(jobs, key=lambda job: (job.created, job.id))

    def read(self, number: str) -> Job:
        """A job by its record; raises OSError, or DataError if it is damaged."""
        path = self.folder / number / RECORD
        status = [os.lstat(each) for each in (path.parent, path)]
        if not stat.S_ISDIR(status[0].st_mode) or not stat.S_ISREG(status[1].st_mode):
            raise DataError("a link, or no regular file")
        if status[1].st_size > MAX_RECORD:
            raise DataError(f"larger than {MAX_RECORD:,} bytes")
        try:
            record = read_record(path)
            json.dumps(record, ensure_ascii=False).encode()  # half of a surrogate pair cannot be reported
            job = Job.model_validate(record)
        except ValidationError as error:
            first = error.errors()[0]
            raise DataError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except (ValueError, RecursionError) as error:
            raise DataError(str(error)) from None
        if job.id != number or not ID.fullmatch(number):
            raise DataError(f"its id is {job.id!r}")
        if not job.n_failed <= job.output.n_lines <= job.input.n_lines or not job.input.n_lines:
            raise DataError("its counts of lines contradict one another")
        return job

    def save(self, job: Job, folder: Path | None = None) -> None:
        """Record a job; folder: before it is published."""
        write_file((folder or self.folder / job.id) / RECORD, dump_record(job.model_dump()))

    def publish(self, job: Job, upload: Path) -> None:
        """Make a job of an upload, and sync it."""
        self.save(job, upload)
        upload.rename(self.folder / upload.name)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def delete(self, job: Job) -> None:
        """Remove a job in one step; raises FileNotFoundError if it is gone."""
        (self.folder / job.id).rename(self.uploads / job.id)
        shutil.rmtree(self.uploads / job.id, ignore_errors=True)

    def count(self) -> tuple[int, int]:
        """Jobs, those being uploaded included, and the bytes that they need: their outputs as long as their inputs."""
        found = list(self._sizes())
        return len(found), sum(n_in + max(n_in, n_out) for n_in, n_out in found)

    def _sizes(self) -> Iterator[tuple[int, int]]:
        """Bytes of input and output of each job, damaged or not."""
        for folder in (self.folder, *self.folder.glob(f"{UPLOADS}*")):
            with suppress(OSError):  # another server removes it at the moment
                for entry in os.scandir(folder):
                    if ID.fullmatch(entry.name):
                        yield _size(f"{entry.path}/{INPUT}"), _size(f"{entry.path}/{OUTPUT}")

    def open_output(self, job: Job) -> IO[bytes]:
        """The output at its beginning; raises OSError, or DataError unless its lines are those that were written."""
        return _open_checked(self.path(job, OUTPUT), job.output)[0]

    def check_output(self, job: Job) -> hashlib._Hash:
        """The sha256 of the output so far; raises as `open_output` does."""
        if not job.output.n_bytes and not os.path.lexists(self.path(job, OUTPUT)):
            return hashlib.sha256()
        file, digest = _open_checked(self.path(job, OUTPUT), job.output)
        file.close()
        return digest

    def open_input(self, job: Job) -> IO[bytes]:
        """The input at its beginning; raises OSError, or DataError unless it is what was uploaded."""
        path = self.path(job, INPUT)
        file, _ = _open_checked(path, job.input)
        if (size := os.fstat(file.fileno()).st_size) != job.input.n_bytes:
            raise DataError(f"{path} is damaged: {size} bytes, and {RECORD} says {job.input.n_bytes}")
        return file

    def append(self, job: Job, lines: list[str], digest: hashlib._Hash) -> Lines:
        """Write lines behind those of a job that are done, and sync them; what is done then.

        digest: of the output so far, to which the lines are added.
        """
        path, data = self.path(job, OUTPUT), "".join(f"{line}\n" for line in lines).encode()
        with open_own(path, "ab") as file:
            if (size := os.fstat(file.fileno()).st_size) < job.output.n_bytes:
                raise DataError(f"{path} is damaged: {size} bytes, and {job.output.n_bytes} were written")
            file.truncate(job.output.n_bytes)  # of lines that were being written when a server was killed
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        digest.update(data)
        n_lines, n_bytes = job.output.n_lines + len(lines), job.output.n_bytes + len(data)
        return Lines(n_lines=n_lines, n_bytes=n_bytes, sha256=digest.hexdigest())


def _remove_abandoned(path: Path) -> None:
    """Remove uploads of a server that has ended; raises CheckpointError if it has not."""
    if path.is_symlink() or not (path / ".lock").stat().st_size:  # 0: it is about to lock them
        return
    lock = FileLock(path / ".lock")
    lock.acquire()
    n_uploads = sum(bool(ID.fullmatch(each.name)) for each in path.iterdir())
    shutil.rmtree(path, ignore_errors=True)
    lock.release()
    if n_uploads:
        logger.warning("%s: removed %d uploads of a server that was killed", path.parent, n_uploads)


def _open_checked(path: Path, lines: Lines) -> tuple[IO[bytes], hashlib._Hash]:
    """A file at its beginning, and the sha256 of its first lines; raises DataError unless they are `lines`."""
    file = _open_regular(path)
    digest, n_lines, n_left, last = hashlib.sha256(), 0, lines.n_bytes, b""
    while data := file.read(min(BLOCK, n_left)):
        digest.update(data)
        n_lines, n_left, last = n_lines + data.count(b"\n"), n_left - len(data), data[-1:]
    n_lines += last not in (b"", b"\n")
    if n_left or digest.hexdigest() != lines.sha256 or n_lines != lines.n_lines:
        file.close()
        raise DataError(f"{path} is damaged: it is not what {RECORD} says")
    file.seek(0)
    return file, digest


def _open_regular(path: Path) -> IO[bytes]:
    """Open a file for reading; raises DataError for a link, and for what is no file, such as a pipe."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise DataError(f"{path} is damaged: a link, or no regular file")
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
