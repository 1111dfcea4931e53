"""Shards of samples in a tar archive, as WebDataset has them: consecutive files of one name are a sample, their endings
its keys: 000.en.txt and 000.de.txt, or 000.json."""

from __future__ import annotations

__all__ = ["ShardFile"]

import tarfile
from typing import TYPE_CHECKING, Any

from s2s import DataError, Rejected
from s2s.data import DROP_HINT, INVALID_UTF8, MAX_LINE, open_bytes
from s2s.io import parse_json
from s2s_text_corpora.pair_file import one_line
from s2s_text_corpora.records import RecordFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

MAX_BYTES = 4 * MAX_LINE
"""Of a file in a shard: a text, and no corpus"""
TEXT = ("txt", "text", "json")
"""Endings of files that must be text"""


class ShardFile(RecordFile):
    """One shard, read as a stream; files that are no text, such as images, are left out."""

    place = ", sample "

    def rows(self) -> Iterator[tuple[int, Any]]:
        number, name, sample = 0, "", dict[str, Any]()
        for key, ending, data in self._files():
            if key != name and sample:
                number += 1
                yield number, _row(sample)
                sample = {}
            name = key
            sample |= self._values(ending, data, key)
        if sample:
            yield number + 1, _row(sample)

    def _files(self) -> Iterator[tuple[str, str, bytes]]:
        """Name, ending and contents of every file: a/b.en.txt -> a/b, en.txt."""
        with open_bytes(self.path, text=False) as raw:
            try:
                with tarfile.open(fileobj=raw, mode="r|") as archive:
                    for info in archive:
                        if info.isreg():
                            folder, _, file = info.name.rpartition("/")
                            key, _, ending = file.partition(".")
                            yield f"{folder}/{key}", ending, self._contents(archive.extractfile(info), info)
            except (tarfile.TarError, EOFError) as error:
                raise one_line(error, self.path, "a tar archive") from None

    def _contents(self, file: IO[bytes] | None, info: tarfile.TarInfo) -> bytes:
        if info.size > MAX_BYTES:
            raise DataError(
                f"{self.path}: {info.name} has {info.size:,} bytes, so this is no archive of samples; unpack it: "
                f"tar xf {self.path}"
            )
        return file.read() if file else b""

    def _values(self, ending: str, data: bytes, key: str) -> dict[str, Any]:
        """What a file adds to its sample: the keys of JSON, or its text under its ending."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            if not ending.endswith(TEXT):
                return {}
            if self.reading.invalid == "error":
                raise DataError(f"{self.path}: {key}.{ending} is not UTF-8; {DROP_HINT}") from None
            return {ending: INVALID_UTF8}
        if ending != "json" and not ending.endswith(".json"):
            return {ending.removesuffix(".txt").removesuffix(".text"): " ".join(text.splitlines())}
        try:
            read = parse_json(text)
        except ValueError as error:
            raise DataError(f"{self.path}: {key}.{ending}: not JSON ({error})") from None
        return read if isinstance(read, dict) else {ending: text}


def _row(sample: dict[str, Any]) -> dict[str, Any] | Rejected:
    return next((value for value in sample.values() if isinstance(value, Rejected)), sample)
