"""An output file that a killed command can continue.

While it grows it is FILE.partial, FILE.partial.json says what it is made of, and FILE.partial.crc has a checksum of
each write, since a disk may change what a killed command left. When it is done it is renamed to FILE, and
.FILE.made-of.json says what it was made of. So a FILE is always whole, nothing is added to the outputs of another
input or model, no FILE is taken for that of another, and no other file is written over.
"""

from __future__ import annotations

__all__ = ["ResumableFile"]

import fcntl
import json
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any

from s2s.compose import differences
from s2s.errors import DataError, UserError
from s2s.io import atomic
from s2s.io.json_files import dump_record, read_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


ENTRY = struct.Struct("<QI")
"""How many bytes were written at once, and their CRC-32"""


class ResumableFile:
    """Grows by groups of lines; one that a kill -9 tore is cut off when the file is continued.

    `made_of` is all that its contents depend on, as JSON can hold it.
    """

    otherwise = "leave out resume=true"
    """What to do about one that cannot be continued"""

    def __init__(self, path: Path, n_lines: int) -> None:
        """n_lines: of each group."""
        path = _behind_links(path)
        if not path.parent.is_dir():
            raise DataError(f"output={path}: there is no folder {path.parent}; make it first")
        self.path, self.n_lines = path, n_lines
        self.partial = path.with_name(f"{path.name}.partial")
        self.header = path.with_name(f"{path.name}.partial.json")
        self.checksums = path.with_name(f"{path.name}.partial.crc")
        self.record = path.with_name(f".{path.name}.made-of.json")
        self.descriptor = -1

    def files(self) -> list[Path]:
        """Every file that is written."""
        temporary = [atomic.temporary(path) for path in (self.header, self.record)]
        return [self.path, self.partial, self.header, self.checksums, self.record, *temporary]

    def is_done(self, made_of: Mapping[str, Any]) -> bool:
        """Whether an earlier command wrote the whole file; raises DataError if it wrote another one there."""
        if not self.path.exists() or self.partial.exists():
            return False
        written = self._own(self.record)
        if written is None:
            raise DataError(
                f"{self.path} is there, and nothing says what it was made of; remove it, or {self.otherwise}"
            )
        if written["sha256"] != atomic.sha256(self.path):
            raise DataError(f"{self.path} is not as it was written; remove it, or {self.otherwise}")
        self._refuse_other(f"{self.path} is another output", written["made_of"], made_of)
        if self._own(self.header):  # of a command that was killed before it tidied up
            self._tidy_up()
        return True

    def begin(self, made_of: Mapping[str, Any]) -> int:
        """Start anew, with 0 groups; a finished file stays until this one is done."""
        self._refuse_strangers()
        self._open()
        os.truncate(self.descriptor, 0)
        atomic.write_file(self.header, dump_record({"output": self.path.name, "made_of": made_of}))
        self.checksums.write_bytes(b"")
        return 0

    def resume(self, made_of: Mapping[str, Any]) -> int:
        """How many groups an unfinished file holds as they were written; what comes after them is cut off."""
        if not self.partial.exists() or not self.partial.stat().st_size:  # killed before the header was there
            return self.begin(made_of)
        self._refuse_strangers()
        self._open()
        header = self._own(self.header)
        assert header is not None
        self._refuse_other(f"{self.partial} cannot be continued", header["made_of"], made_of)
        os.truncate(self.descriptor, self._n_intact())
        n_groups, end = self._whole_groups()
        os.truncate(self.descriptor, end)
        self.checksums.write_bytes(_checksum(self.partial.read_bytes()))
        return n_groups

    def made_of(self) -> dict[str, Any]:
        """What the finished file was made of; raises DataError if it is not as it was written."""
        written = self._own(self.record)
        if written is None or written["sha256"] != atomic.sha256(self.path):
            raise DataError(f"{self.path} is not as it was written; remove it, and make it again")
        made_of: dict[str, Any] = written["made_of"]
        return made_of

    def write(self, lines: Iterable[str]) -> None:
        """Append lines; they are with the system when this returns, and survive the command."""
        written = "".join(f"{line}\n" for line in lines).encode()
        data = memoryview(written)
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
            with self.checksums.open("ab") as file:
                file.write(_checksum(written))
        except OSError as error:
            error.filename = str(self.partial)
            raise

    def finish(self) -> None:
        """Give the file its name."""
        os.fsync(self.descriptor)
        header = self._own(self.header)
        assert header is not None, "`begin` wrote it"
        atomic.write_file(self.record, dump_record({**header, "sha256": atomic.sha256(self.partial)}))
        os.replace(self.partial, self.path)  # noqa: PTH105  beside os.fsync, whose order with it matters
        atomic.fsync(self.path.parent)
        self._tidy_up()
        self.close()

    def unfinished(self) -> str:
        """Where to find what was done, to say at the end of an error."""
        return f". What comes before is in {self.partial}"

    def close(self) -> None:
        """Leave the file as it is, for `resume`."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _tidy_up(self) -> None:
        """Remove what belongs to a growing file; the header last, which says that the rest is ours."""
        self.checksums.unlink(missing_ok=True)
        self.header.unlink()

    def _n_intact(self) -> int:
        """Bytes of the growing file from its beginning that are as they were written."""
        end, size = 0, self.partial.stat().st_size
        if not self.checksums.exists():
            return 0
        with self.checksums.open("rb") as checksums, self.partial.open("rb") as file:
            while expected := checksums.read(ENTRY.size):
                n_bytes = ENTRY.unpack(expected)[0] if len(expected) == ENTRY.size else size + 1
                if end + n_bytes > size or _checksum(file.read(n_bytes)) != expected:
                    break
                end += n_bytes
        return end

    def _open(self) -> None:
        try:
            self.descriptor = os.open(self.partial, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:  # the name is too long, a folder is in the way, …
            raise DataError(f"output={self.path}: {self.partial} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(self.descriptor), self.partial.stat()):
                return
        except (BlockingIOError, FileNotFoundError):  # or finished, and renamed, before it could be locked
            pass
        except OSError as error:
            if error.errno in atomic.NO_LOCKS:
                return
            raise
        self.close()
        raise UserError(f"{self.partial} is being written by another s2s-generate; wait for it")

    def _own(self, path: Path) -> dict[str, Any] | None:
        """What `path`, the header or the record of this output, says; None if it is not that."""
        try:
            written = read_record(path)
        except (OSError, ValueError):
            return None
        return written if written.get("output") == self.path.name and "made_of" in written else None

    def _refuse_strangers(self) -> None:
        """Raise DataError if a file is in the way that was not written for this output."""
        strangers = [path for path in (self.header, self.record) if os.path.lexists(path) and not self._own(path)]
        if not os.path.lexists(self.header):
            growing = (self.partial, self.checksums)
            strangers += [p for p in growing if os.path.isfile(p) and p.stat().st_size]  # noqa: PTH113  no name is too long
        if strangers:
            raise DataError(
                f"output={self.path} would write over {strangers[0]}, which is damaged, or was not written for this "
                "output; remove it, or give another output"
            )

    def _refuse_other(self, what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        changed = differences(before, json.loads(json.dumps(now, default=str)))
        if changed:
            which = ", ".join(f"{key} was {old!r} and is {new!r}" for key, (old, new) in changed.items())
            raise DataError(f"{what}: {which}; give what it was made with, or {self.otherwise}")

    def _whole_groups(self) -> tuple[int, int]:
        """How many groups of lines are complete, and the byte where the last of them ends."""
        n_groups = end = at = seen = 0
        with self.partial.open("rb") as file:
            for line in file:
                at += len(line)
                seen += line.endswith(b"\n")
                if seen == self.n_lines:
                    n_groups, end, seen = n_groups + 1, at, 0
        return n_groups, end


def _checksum(data: bytes) -> bytes:
    """The entry of the checksums for data that were written at once."""
    return ENTRY.pack(len(data), zlib.crc32(data))


def _behind_links(path: Path) -> Path:
    """What a symbolic link names, so that it stays one; the path itself where it is none."""
    try:
        target = path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13
        raise DataError(f"output={path}: {getattr(error, 'strerror', None) or error}; give another file") from None
    if target.is_symlink():  # a loop, since Python 3.13
        raise DataError(f"output={path}: a symbolic link that leads back to itself; give another file")
    return target
