"""The cache of downloaded files, each complete and verified, or not there.

A file is written beside its place as NAME.part, with NAME.part.json on where it comes from; verified; and renamed.
Whatever kills the process, the next one continues the part, if the server still has the same file.
"""

from __future__ import annotations

__all__ = ["Downloads", "downloads_folder"]

import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from s2s import CheckpointError, DataError
from s2s.io import FileLock, cache_folder, dump_record, read_record, write_file
from s2s_named_corpora.remote_file import Expected, RemoteFile, digests, fetching_error
from s2s_named_corpora.transport import Refused, Transport, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from s2s_named_corpora.transport import Answer

PINS = "pins.json"
ATTEMPTS = 3
"""At one address without a new byte"""
WAIT = 0.2


def downloads_folder() -> Path:
    """`$XDG_CACHE_HOME/s2s/data`, beside the models that are imported."""
    try:
        return cache_folder("data")
    except OSError as error:
        raise DataError(f"corpora cannot be downloaded: {error}") from None


class Downloads:
    """Downloads files into a folder, one process at a time for each."""

    def __init__(
        self,
        folder: Path,
        transport: Transport | None = None,
        *,
        offline: bool = False,
        pin: bool = False,
        pause: float = 2.0,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """offline: use only what is there. pin: accept a file without a known hash, and keep to its hash from then on.
        pause: seconds before the next request to an address, doubled each time."""
        self.folder, self.transport = folder, transport or Transport()
        self.offline, self.pin, self.pause, self.report = offline, pin, pause, report

    def path(self, file: RemoteFile) -> Path:
        """Where a file is, or will be."""
        return self.folder / "files" / file.key

    def is_here(self, file: RemoteFile) -> bool:
        """Whether a file was downloaded, and has its size still."""
        path = self.path(file)
        n_bytes = self.expected(file).n_bytes
        return path.is_file() and (n_bytes is None or path.stat().st_size == n_bytes)

    def expected(self, file: RemoteFile) -> Expected:
        """What the file must be: as the catalogue says, else as it was when it was pinned."""
        if file.expected.is_hashed:
            return file.expected
        pinned = self._pins().get(file.identity)
        return Expected(pinned["sha256"], "", pinned["bytes"]) if pinned else file.expected

    def fetch(self, file: RemoteFile) -> Path:
        """The path of the verified file; raises DataError where it cannot be had."""
        path = self.path(file)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self.locked(path):
                if not self.is_here(file):
                    self._check_allowed(file)
                    self._download(file, path)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}; another cache is named by XDG_CACHE_HOME") from error
        return path

    def _check_allowed(self, file: RemoteFile) -> None:
        if self.offline:
            raise DataError(f"{file.name} is not in {self.folder}, and offline=true: download it without, once")
        if not self.pin and not self.expected(file).is_hashed:
            raise DataError(
                f"{file.name}: its hash is not known, so that nothing shows whether it is the right file; pin=true "
                f"accepts what {file.urls[0]} has, and keeps to its hash in {self.folder / PINS}"
            )

    def _download(self, file: RemoteFile, path: Path) -> None:
        part = _Part(file.name, path, self.expected(file))
        reasons = list[str]()
        for url in file.urls:
            try:
                self._from(url, part)
            except Refused as error:
                reasons.append(str(error))
                continue
            if not file.expected.is_hashed:
                self._pin(file, part)
            part.finish()
            return
        raise fetching_error(file, list(dict.fromkeys(reasons)))

    def _from(self, url: str, part: _Part) -> None:
        """Complete a part from one address; raises Refused where it fails."""
        n_failed = 0
        while not part.is_complete():
            is_continued = part.continues(url)
            before = part.n_bytes if is_continued else 0
            try:
                self.report(f"{part.name} from {url}" + (f", from byte {before:,} on" if before else ""))
                validator = part.validator if is_continued else ""
                with self.transport.open(url, before, validator, is_hashed=part.expected.is_hashed) as answer:
                    part.write(url, answer, self.report)
                if not (fault := part.fault()):
                    return
                part.remove()
                if not is_continued:
                    raise Refused(f"what {url} has {fault}")
                self.report(f"what {url} has {fault}: downloaded again, from the beginning")
            except Unavailable as error:
                n_failed = 0 if part.n_bytes > before else n_failed + 1
                if n_failed >= ATTEMPTS:
                    raise Refused(str(error)) from None
                self.report(f"{error}; next attempt")
                time.sleep(self.pause * 2 ** max(n_failed - 1, 0))

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Holds the lock of one file; waits for the process that has it to finish or die."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.name}.lock"))
        is_reported = False
        while lock.descriptor is None:
            try:
                lock.acquire()
            except CheckpointError:
                if not is_reported:
                    self.report(f"waiting for another process that makes {path.name.partition('-')[2]}")
                is_reported = True
                time.sleep(WAIT)
        try:
            yield
        finally:
            lock.release()

    def _pins(self) -> dict[str, Any]:
        try:
            return read_record(self.folder / PINS)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise DataError(f"{self.folder / PINS}: damaged ({error}); restore it, or remove it to pin again") from None

    def _pin(self, file: RemoteFile, part: _Part) -> None:
        n_bytes, sha256, _ = digests(part.file)
        with self.locked(self.folder / "files" / f"{0:016}-{PINS}"):
            date = time.strftime("%Y-%m-%d", time.gmtime())
            pins = {**self._pins(), file.identity: {"sha256": sha256, "bytes": n_bytes, "date": date}}
            write_file(self.folder / PINS, dump_record(pins))


class _Part:
    """A file that is not complete yet."""

    def __init__(self, name: str, path: Path, expected: Expected) -> None:
        self.name, self.path, self.expected = name, path, expected
        self.file, self.record = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.json")

    @property
    def n_bytes(self) -> int:
        """Bytes that are there."""
        return self.file.stat().st_size if self.file.is_file() else 0

    @property
    def validator(self) -> str:
        """What identifies, to the server, the contents of which this is a part; empty: unknown."""
        return str(self._read().get("validator", ""))

    def continues(self, url: str) -> bool:
        """Whether it is part of the file at an address."""
        return self._read().get("url") == url and bool(self.validator) and self.n_bytes > 0

    def write(self, url: str, answer: Answer, report: Callable[[str], None]) -> None:
        """Append what the server sends, or begin again if that is the whole file."""
        most = self.expected.n_bytes if self.expected.n_bytes is not None else answer.n_bytes
        if self.expected.n_bytes is not None and answer.n_bytes not in (None, self.expected.n_bytes):
            self.remove()
            raise Refused(f"what {url} has is of {answer.n_bytes:,} bytes, expected {self.expected.n_bytes:,}")
        with self.file.open("ab") as file:
            file.truncate(answer.offset)
            if not answer.offset:  # before the first byte, so that no byte is taken for those of another version
                write_file(self.record, dump_record({"url": url, "validator": answer.validator}))
            done, reported = answer.offset, time.monotonic()
            for chunk in answer.chunks:
                done += len(chunk)
                if most is not None and done > most:
                    file.truncate(0)
                    raise Refused(f"{url} sends more than {most:,} bytes")
                file.write(chunk)
                if time.monotonic() - reported > 10:
                    reported = time.monotonic()
                    report(f"{done:,} of {most:,} bytes" if most else f"{done:,} bytes")
            file.flush()
            os.fsync(file.fileno())
        wanted = self.expected.n_bytes if answer.n_bytes is None else answer.n_bytes
        if wanted is not None and done < wanted:
            raise Unavailable(f"{url} ended after {done:,} of {wanted:,} bytes")

    def is_complete(self) -> bool:
        """Whether only its renaming is missing, since the process was killed before it."""
        n_bytes = self.n_bytes
        return n_bytes > 0 and self.expected.is_hashed and self.expected.n_bytes in (None, n_bytes) and not self.fault()

    def fault(self) -> str:
        """How it differs from what is expected; empty: it does not."""
        return self.expected.fault(self.file)

    def finish(self) -> None:
        """Move it to its place."""
        self.file.replace(self.path)
        self.record.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove what is there."""
        self.file.unlink(missing_ok=True)
        self.record.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            return read_record(self.record)
        return {}
