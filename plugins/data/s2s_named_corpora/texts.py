"""Texts of downloaded files: members of archives beside them in the cache, their lines counted on both sides.

A text that is there was verified before it was renamed; its record, NAME.json, says of what it was made.
"""

from __future__ import annotations

__all__ = ["Texts"]

import hashlib
import os
import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from s2s import DataError
from s2s.data import open_bytes
from s2s.io import dump_record, read_record, write_file
from s2s_named_corpora.archives import copy_members
from s2s_named_corpora.catalogue import Source, Text, sources_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from s2s_named_corpora.downloads import Downloads
    from s2s_named_corpora.remote_file import RemoteFile

CHUNK = 1 << 20


class Texts:
    """Makes texts out of downloaded files."""

    def __init__(self, downloads: Downloads, *, count: bool = True) -> None:
        """count: whether other counts than those of the catalogue are an error."""
        self.downloads, self.count = downloads, count

    def path(self, source: Source) -> Path:
        """Where a side is, or will be."""
        if not source.member:
            return self.downloads.path(source.file)
        key = hashlib.sha256(f"{source.file.identity} {source.member}".encode()).hexdigest()[:16]
        return self.downloads.folder / "texts" / f"{key}-{PurePosixPath(source.member).name}"

    def make(self, texts: Sequence[Text], languages: Sequence[str]) -> list[list[Path]]:
        """The sides of every text, downloaded, unpacked and counted.

        Raises DataError where a file cannot be had, or lines are not as many as they should be.
        """
        by_file = dict[str, list[Source]]()
        for source in sources_of(texts, languages):
            if not self.path(source).is_file():
                by_file.setdefault(source.file.key, []).append(source)
        for sources in by_file.values():
            self._unpack(sources[0].file, [one for one in sources if one.member])
        return [self._counted(text, languages) for text in texts]

    def _unpack(self, file: RemoteFile, sources: Sequence[Source]) -> None:
        """Download a file, and copy what is wanted of it."""
        archive = self.downloads.fetch(file)
        try:
            with self.downloads.locked(self.downloads.folder / "texts" / file.key):
                missing = [source for source in sources if not self.path(source).is_file()]
                if missing:
                    self.downloads.report(f"unpacking {file.name}: {', '.join(source.member for source in missing)}")
                    self._copy(archive, missing)
        except OSError as error:
            raise DataError(f"{archive}: cannot be unpacked: {error.strerror or error}") from error

    def _copy(self, archive: Path, sources: Sequence[Source]) -> None:
        """Copy members beside their places, verify and rename them; what a killed process left is written over."""
        parts = {one.member: self.path(one).with_name(f"{self.path(one).name}.part") for one in sources}
        copy_members(archive, parts)
        for source in sources:
            path, part, file = self.path(source), parts[source.member], source.file
            facts = _facts(part)
            if source.md5 and facts["md5"] != source.md5:
                raise DataError(f"{file.name}: {source.member} has the md5 {facts['md5']}, expected {source.md5}")
            _record(path, {"urls": file.urls, "file": file.identity, "member": source.member, **facts})
            os.replace(part, path)  # noqa: PTH105  as in s2s.io

    def _counted(self, text: Text, languages: Sequence[str]) -> list[Path]:
        """The sides of a text; raises DataError where their counts are not those of the catalogue."""
        sources = text.sources(languages)
        paths = [self.downloads.fetch(one.file) if not one.member else self.path(one) for one in sources]
        counts = {path: _n_lines(path) for path in paths}
        named = " and ".join(f"{n:,} lines in {path.name.partition('-')[2]}" for path, n in counts.items())
        if len(set(counts.values())) > 1:
            raise DataError(f"{named}: the sides are not parallel")
        if self.count and text.lines is not None and set(counts.values()) != {text.lines}:
            raise DataError(
                f"{named}, expected {text.lines:,}: the recipe would be another; count=false takes it as it is"
            )
        return paths


def _n_lines(path: Path) -> int:
    """Lines of a side, counted once."""
    record = path.with_name(f"{path.name}.json")
    try:
        n_lines: int = read_record(record)["lines"]
    except (OSError, ValueError, KeyError):
        facts = _facts(path)
        _record(path, facts)
        return int(facts["lines"])
    return n_lines


def _record(path: Path, facts: Mapping[str, Any]) -> None:
    date = time.strftime("%Y-%m-%d", time.gmtime())
    write_file(path.with_name(f"{path.name}.json"), dump_record({**facts, "date": date}))


def _facts(path: Path) -> dict[str, Any]:
    """Lines, bytes and hashes of a side, unpacked; the last line may have no end."""
    sha256, md5, n_lines, n_bytes, last = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0, 0, b"\n"
    with open_bytes(path, text=False) as file:
        while chunk := file.read(CHUNK):
            sha256.update(chunk)
            md5.update(chunk)
            n_lines, n_bytes, last = n_lines + chunk.count(b"\n"), n_bytes + len(chunk), chunk[-1:]
    return {
        "lines": n_lines + (last != b"\n"),
        "bytes": n_bytes,
        "sha256": sha256.hexdigest(),
        "md5": md5.hexdigest(),
    }
