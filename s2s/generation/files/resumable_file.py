"""An output file that can be continued after its command was killed.

    FILE.partial          grows by groups of lines, locked by the command that writes it
    FILE.partial.json     what it is made of: input, checkpoint, options
    FILE.partial.crc      a checksum of each write, since a disk may change what a killed command left
    FILE                  the whole output: FILE.partial, renamed
    .FILE.made-of.json    what FILE was made of, and its checksum

FILE is complete whenever it exists. The outputs of another input or model are neither continued nor mistaken for these,
and no file is overwritten that was not written for this output.
"""

from __future__ import annotations

__all__ = ["ResumableFile"]

import json
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any

from s2s.compose import differences
from s2s.errors import DataError, UserError
from s2s.generation.files.output_stream import OutputStream, ended
from s2s.io.atomic import fsync, sha256, temporary, write_file
from s2s.io.json_files import dump_record, read_record
from s2s.io.kernel_lock import flock
from s2s.io.outputs import check_replaceable, is_ours, record_of, record_output
from s2s.io.own_file import own_descriptor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


ENTRY = struct.Struct("<QI")
"""Number of bytes in one write, and their CRC-32"""


class ResumableFile(OutputStream):
    """Appends groups of lines; a group that a kill cut short is removed when the file is continued.

    `provenance` is everything that its contents depend on, as JSON can represent it.
    """

    how_to_begin_anew = "remove it or leave out resume=true"
    otherwise = "leave out resume=true"
    """Advice for a file that cannot be continued"""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        path = _behind_links(path)
        if not path.parent.is_dir():
            raise DataError(f"output={path}: there is no folder {path.parent}; make it first")
        super().__init__(str(path))
        self.path, self.overwrite = path, overwrite
        self.partial = path.with_name(f"{path.name}.partial")
        self.header = path.with_name(f"{path.name}.partial.json")
        self.checksums = path.with_name(f"{path.name}.partial.crc")
        self.record = record_of(path)
        self.descriptor = self.descriptor_of_checksums = -1

    def files(self) -> list[Path]:
        """Every file that is written."""
        records = (self.header, self.record)
        return [self.path, self.partial, self.checksums, *records, *map(temporary, records)]

    def is_done(self, provenance: Mapping[str, Any]) -> bool:
        """Whether an earlier command finished the file; DataError if it is the output of something else."""
        if not self.path.exists() or self.partial.exists() or (self.overwrite and not is_ours(self.path)):
            return False
        if self._read(self.record) is None:
            raise DataError(f"{self.path} is there, and nothing says what it was made of; remove it, or overwrite=true")
        self._check_same(f"{self.path} is another output", self.provenance("or overwrite=true"), provenance)
        if self._read(self.header):  # the command was killed after it had renamed FILE.partial
            self._tidy_up()
        return True

    def provenance(self, advice: str = "and make it again") -> dict[str, Any]:
        """What the finished file was made of; DataError if its contents have changed since."""
        record = self._read(self.record)
        if record is None or record["sha256"] != sha256(self.path):
            raise DataError(f"{self.path} is not as it was written; remove it, {advice}")
        provenance: dict[str, Any] = record["made_of"]
        return provenance

    def begin(self, provenance: Mapping[str, Any]) -> int:
        """Start anew, with 0 groups; an earlier FILE stays until this one is finished."""
        self._open()
        os.truncate(self.descriptor, 0)
        write_file(self.header, dump_record({"output": self.path.name, "made_of": provenance}))
        self._open_checksums(b"")
        return 0

    def resume(self, provenance: Mapping[str, Any], n_lines: int) -> int:
        """Continue FILE.partial; returns the number of its groups, of `n_lines` each, that are as they were written."""
        if not self.partial.exists() or not self.partial.stat().st_size:  # killed before the header was written
            return self.begin(provenance)
        self._open()
        self._check_same(f"{self.partial} cannot be continued", self._header()["made_of"], provenance)
        os.truncate(self.descriptor, self._n_intact())
        n_groups, end = self._whole_groups(n_lines)
        os.truncate(self.descriptor, end)
        self._open_checksums(_checksum(self.partial.read_bytes()))
        return n_groups

    def _open_checksums(self, content: bytes) -> None:
        """Write the file of checksums anew, and keep it open."""
        self.descriptor_of_checksums = own_descriptor(
            self.checksums, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        )
        os.write(self.descriptor_of_checksums, content)

    def write(self, lines: Sequence[str], end: str = "\n") -> None:
        """Append lines; once this returns, they survive the end of the process."""
        written = ended(lines, end)
        data = memoryview(written)
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
            os.write(self.descriptor_of_checksums, _checksum(written))
        except OSError as error:
            error.filename = str(self.partial)
            raise

    def finish(self) -> None:
        """Rename FILE.partial to FILE."""
        os.fsync(self.descriptor)
        record_output(self.path, {**self._header(), "sha256": sha256(self.partial)})
        os.replace(self.partial, self.path)  # noqa: PTH105  next to os.fsync, since their order matters
        fsync(self.path.parent)
        self._tidy_up()
        self.close()

    def unfinished(self) -> str:
        """The end of an error message, which says where the outputs so far are."""
        return f". What comes before is in {self.partial}"

    def close(self) -> None:
        """Release the file, which `resume` can continue."""
        for descriptor in (self.descriptor, self.descriptor_of_checksums):
            if descriptor >= 0:
                os.close(descriptor)
        self.descriptor = self.descriptor_of_checksums = -1

    def _tidy_up(self) -> None:
        """Remove the files that accompany a growing file; the header last, since it marks the others as ours."""
        self.checksums.unlink(missing_ok=True)
        self.header.unlink()

    def _n_intact(self) -> int:
        """Number of bytes at the beginning of the growing file that are as they were written."""
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
        """Open FILE.partial and lock it, if the file system supports locks."""
        self._check_own_files()
        check_replaceable(f"output={self.path}", self.path, overwrite=self.overwrite)
        try:
            self.descriptor = own_descriptor(self.partial, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        except OSError as error:  # the name is too long, a folder is in the way, …
            raise DataError(f"output={self.path}: {self.partial} cannot be written: {error.strerror}") from None
        try:
            locked = not flock(self.descriptor) or os.path.samestat(os.fstat(self.descriptor), self.partial.stat())
        except (BlockingIOError, FileNotFoundError):  # FileNotFoundError: renamed by another command meanwhile
            locked = False
        if not locked:
            self.close()
            raise UserError(f"{self.partial} is being written by another s2s-generate; wait for it")

    def _header(self) -> dict[str, Any]:
        header = self._read(self.header)
        assert header is not None, "`begin` wrote it"
        return header

    def _read(self, path: Path) -> dict[str, Any] | None:
        """The header or the record of this output; None if the file is missing, damaged, or of another output."""
        try:
            written = read_record(path)
        except (OSError, ValueError):
            return None
        return written if written.get("output") == self.path.name and "made_of" in written else None

    def _check_own_files(self) -> None:
        """DataError if one of the files to write exists, but was not written for this output."""
        foreign = [path for path in (self.header, self.record) if os.path.lexists(path) and not self._read(path)]
        if not os.path.lexists(self.header):
            growing = (self.partial, self.checksums)
            foreign += [p for p in growing if os.path.isfile(p) and p.stat().st_size]  # noqa: PTH113  no name is too long
        if foreign:
            raise DataError(
                f"output={self.path} would write over {foreign[0]}, which is damaged, or was not written for this "
                "output; remove it, or give another output"
            )

    def _check_same(self, what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        if changed := differences(before, json.loads(json.dumps(now, default=str))):
            which = ", ".join(f"{key} was {old!r} and is {new!r}" for key, (old, new) in changed.items())
            raise DataError(f"{what}: {which}; give what it was made with, or {self.otherwise}")

    def _whole_groups(self, n_lines: int) -> tuple[int, int]:
        """Number of complete groups of `n_lines`, and the byte at which the last of them ends."""
        n_groups = end = position = n_of_group = 0
        with self.partial.open("rb") as file:
            for line in file:
                position += len(line)
                n_of_group += line.endswith(b"\n")
                if n_of_group == n_lines:
                    n_groups, end, n_of_group = n_groups + 1, position, 0
        return n_groups, end


def _checksum(data: bytes) -> bytes:
    """The checksum entry for the data of one write."""
    return ENTRY.pack(len(data), zlib.crc32(data))


def _behind_links(path: Path) -> Path:
    """The target of a symbolic link, which is written in its place; other paths unchanged."""
    try:
        target = path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13
        raise DataError(f"output={path}: {getattr(error, 'strerror', None) or error}; give another file") from None
    if target.is_symlink():  # a loop, since Python 3.13
        raise DataError(f"output={path}: a symbolic link that leads back to itself; give another file")
    return target
