"""Reads lines of text files: split at `\\n` only, strictly UTF-8, every error with its file and line.

Python's text mode also splits at U+2028, U+0085, vertical tabs and lone carriage returns, which would silently
misalign parallel files.
"""

from __future__ import annotations

__all__ = [
    "DROP_HINT",
    "INVALID_UTF8",
    "MAX_LINE",
    "NUL",
    "TOO_LONG",
    "Invalid",
    "Line",
    "LineReader",
    "blocks",
    "missing_file_error",
    "numbered_lines",
    "open_bytes",
    "pair_format",
    "read_lines",
]

from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Literal, cast

from s2s.data.compression import N_FIRST_BYTES, decompressed, without_suffix
from s2s.errors import DataError
from s2s.task import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Invalid = Literal["error", "drop"]
"""What to do with an unusable line: raise an error with file and line, or drop and count it."""
Line = str | Rejected

INVALID_UTF8 = Rejected("invalid UTF-8")
NUL = Rejected("NUL character")
BLOCK = 1 << 20  # bytes decoded at once: ten times faster than line by line, in constant memory
MAX_LINE = 1 << 20
"""Maximum bytes of a line, and characters of any text to encode: sentencepiece takes 5 s and 45 MB for this many, and a
small gzip file may unpack to a line that fills memory"""
TOO_LONG = Rejected(f"a line of more than {MAX_LINE:,} bytes")
PAIR_FORMATS = {
    ".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json",
    ".xlsx": "xlsx", ".xlsm": "xlsx", ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow",
    ".tmx": "tmx", ".xlf": "xliff", ".xliff": "xliff", ".sdlxliff": "xliff", ".mqxliff": "xliff", ".mxliff": "xliff",
    ".po": "po", ".tar": "tar", ".tgz": "tar",
}  # fmt: skip
OTHER_FORMATS = {
    b"PK\x03\x04": ("a zip archive", "unpack it with unzip"),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", "unpack it with 7z x"),
    b"\xff\xfe": ("UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    b"\xfe\xff": ("UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
}
"""What a file is whose first bytes match, and what to do: its lines are not text, and could only all be dropped"""
DROP_HINT = "repair the file, or drop such lines with task.invalid=drop"


def read_lines(path: Path, invalid: Invalid = "error") -> Iterator[str]:
    """The lines of a text file, plain or compressed, without line ends; "drop" skips lines that are not text."""
    for block in blocks(path, invalid):
        yield from (line for line in block if not isinstance(line, Rejected))


def numbered_lines(path: Path, invalid: Invalid) -> Iterator[tuple[int, Line]]:
    """Every line with its number, from 1; one that is not text is a `Rejected` in its position."""
    number = 0
    for block in blocks(path, invalid):
        yield from enumerate(block, number + 1)
        number += len(block)


def blocks(path: Path, invalid: Invalid) -> Iterator[list[Line]]:
    """The lines of a file, in lists of about BLOCK bytes each."""
    number = 0
    for data in _whole_lines(path, invalid):
        lines = _decoded(data, path, number, invalid)
        number += len(lines)
        yield lines


class LineReader:
    """The lines of a file, read from its beginning in any numbers."""

    def __init__(self, path: Path, invalid: Invalid) -> None:
        self.path, self.invalid = path, invalid
        self._blocks = _whole_lines(path, invalid)
        self._lines: list[Line] = []
        self._n_decoded = 0

    def take(self, n: int) -> list[Line]:
        """The next n lines, fewer at the end of the file; one that is not text is a `Rejected` in its position."""
        while len(self._lines) < n and (data := next(self._blocks, None)) is not None:
            self._lines += self._decode(data)
        taken, self._lines = self._lines[:n], self._lines[n:]
        return taken

    def skip(self, n: int | None = None) -> int:
        """Pass over the next n lines, or all, and return how many there were; they are counted, and not decoded."""
        skipped = len(self._lines[:n])
        del self._lines[:n]
        while (n is None or skipped < n) and (data := next(self._blocks, None)) is not None:
            n_lines = data.count(b"\n") + 1
            if n is not None and skipped + n_lines > n:
                self._lines = self._decode(data)
                return skipped + self.skip(n - skipped)
            self._n_decoded += n_lines
            skipped += n_lines
        return skipped

    def _decode(self, data: bytes) -> list[Line]:
        lines = _decoded(data, self.path, self._n_decoded, self.invalid)
        self._n_decoded += len(lines)
        return lines


def _whole_lines(path: Path, invalid: Invalid) -> Iterator[bytes]:
    """Blocks of whole lines, each without its last line end; a line of more than MAX_LINE bytes may be cut."""
    with open_bytes(path) as file:
        parts: list[bytes] = []  # a line longer than a block is joined once, not once per block
        number = 1
        while data := file.read(BLOCK):
            end = data.rfind(b"\n")
            if end < 0:
                parts.append(data)
                if len(parts) > 2 * MAX_LINE // BLOCK:
                    parts = [b"".join(parts)[: MAX_LINE + 1]]
                    if invalid == "error":
                        raise _too_long(path, number)
                continue
            number += data.count(b"\n")
            parts.append(data[:end])
            yield b"".join(parts)
            parts = [data[end + 1 :]] if end + 1 < len(data) else []
        if parts:
            yield b"".join(parts)


def _decoded(data: bytes, path: Path, before: int, invalid: Invalid) -> list[Line]:
    """The lines of one block, without a mark of the byte order at the beginning of the file."""
    lines = _decode(data, path, before, invalid)
    if before == 0 and isinstance(lines[0], str):
        lines[0] = lines[0].removeprefix("\ufeff")
    return lines


def _decode(data: bytes, path: Path, before: int, invalid: Invalid) -> list[Line]:
    """The lines of one block; only a block with an invalid line is decoded line by line."""
    if len(data) <= MAX_LINE or max(map(len, data.split(b"\n"))) <= MAX_LINE:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass
        else:
            if "\0" not in text:
                return cast("list[Line]", _without_returns(text.split("\n")) if "\r" in text else text.split("\n"))
    lines = data.split(b"\n")
    advice = partial(_advice, lines, before)
    return [_line(raw, path, before + i, invalid, advice) for i, raw in enumerate(lines, 1)]


def _advice(lines: list[bytes], n_good: int) -> str:
    """What to do about a line that is not text, one of these behind `n_good` others: not to drop most of them."""
    half = (n_good + len(lines)) / 2
    if sum(b"\0" in line for line in lines) > half:
        return "convert it: iconv -f UTF-16LE -t UTF-8, if that is its encoding"
    if sum(line.decode(errors="replace") != line.decode(errors="ignore") for line in lines) > half:
        return "convert it: iconv -f LATIN1 -t UTF-8, if that is its encoding"
    return DROP_HINT


def _without_returns(lines: list[str]) -> list[str]:
    return [line.removesuffix("\r") for line in lines]


def _too_long(path: Path, number: int) -> DataError:
    return DataError(f"{path}:{number}: {TOO_LONG.reason}; is this file text? If so, {DROP_HINT}")


def _line(raw: bytes, path: Path, number: int, invalid: Invalid, advice: Callable[[], str]) -> Line:
    if len(raw) > MAX_LINE:
        if invalid == "drop":
            return TOO_LONG
        raise _too_long(path, number)
    try:
        line = raw.decode().removesuffix("\r")
    except UnicodeDecodeError as error:
        if invalid == "drop":
            return INVALID_UTF8
        column = len(raw[: error.start].decode()) + 1
        byte = raw[error.start]
        raise DataError(f"{path}:{number}: invalid UTF-8 byte 0x{byte:02x} at column {column}; {advice()}") from None
    if "\0" not in line:
        return line
    if invalid == "drop":
        return NUL
    raise DataError(f"{path}:{number}: NUL character at column {line.index(chr(0)) + 1}; {advice()}")


@contextmanager
def open_bytes(path: Path, *, text: bool = True) -> Iterator[IO[bytes]]:
    """The uncompressed bytes of a file; any error while reading is raised as a one-line DataError.

    text: raise it also for what cannot be UTF-8 text by its first bytes.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DataError(f"{path}: is a pipe or a device, expected a file; write its contents into a file first")
        with path.open("rb") as raw, decompressed(path, raw) as file:
            if text:
                _check_text(path, file)
            yield file
    except FileNotFoundError:
        raise missing_file_error(path) from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, expected a file; name the file in it") from None
    except PermissionError:
        raise DataError(f"{path}: may not be read; give yourself permission (chmod u+r)") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def _check_text(path: Path, file: IO[bytes]) -> None:
    """Raise DataError for a file whose first bytes are those of another format; nothing is consumed."""
    start = cast("Any", file).peek(N_FIRST_BYTES)[:N_FIRST_BYTES]
    for first_bytes, (what, remedy) in OTHER_FORMATS.items():
        if start.startswith(first_bytes):
            raise DataError(f"{path}: is {what}, expected UTF-8 text; {remedy}")


def pair_format(path: Path) -> str | None:
    """The format of a file that holds both sides of pairs, by its name: tsv, csv, jsonl, …; None for any other name."""
    return PAIR_FORMATS.get(without_suffix(path).suffix.lower())


def missing_file_error(path: Path) -> DataError:
    """The error for a file that does not exist, with a similarly named one in its folder, if any."""
    folder = path.parent
    if path.is_symlink():
        return DataError(f"{path} is a link to {path.readlink()}, which does not exist. Check the link")
    if not folder.is_dir():
        return DataError(f"{path}: no such file; there is no folder {folder}. Check the path")
    names = sorted(p.name for p in folder.iterdir() if p.name != path.name)
    import difflib  # only for errors

    near = difflib.get_close_matches(path.name, names)
    return DataError(f"{path}: no such file. {f'Did you mean {folder / near[0]}?' if near else 'Check the path'}")
