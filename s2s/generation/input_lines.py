"""The input of s2s-generate: lines of a file, or of a pipe as they arrive, in buffers that are decoded together."""

from __future__ import annotations

__all__ = ["buffers", "is_stream", "lines_of", "piped", "standard_input"]

import os
import select
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

from s2s.data.text import INVALID_UTF8, MAX_LINE, NUL, TOO_LONG, Line, numbered_lines
from s2s.errors import ConfigError, DataError
from s2s.task import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

CHUNK = 1 << 16
PAUSE = 0.05  # seconds without a byte after which the sender is assumed to wait for an answer


def lines_of(path: str) -> Iterator[Line | None]:
    """The lines of a file, plain or gzip, or of a pipe (- is standard input), in which None is a pause."""
    if path == "-":
        return piped(standard_input().fileno())
    if is_stream(path):
        return piped(os.open(path, os.O_RDONLY))
    return (line for _, line in numbered_lines(Path(path), "drop"))


def standard_input() -> TextIO:
    """Standard input; a ConfigError if the shell has closed it."""
    if sys.stdin is None:
        raise ConfigError("standard input is closed; name a file to read")
    return sys.stdin


def is_stream(path: str) -> bool:
    """Whether the path is a pipe or a device, such as <(command) in a shell or /dev/null."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  Path's own raises on a name that is too long
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def piped(descriptor: int) -> Iterator[Line | None]:
    """Lines as they arrive, and None when no more have arrived for `PAUSE` seconds."""
    torn: list[bytes] = []
    first = True
    while chunk := os.read(descriptor, CHUNK):
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = b"".join([*torn, whole[0]])
            torn = []
        torn.append(rest)
        if sum(map(len, torn)) > MAX_LINE:
            yield TOO_LONG
            return
        for raw in whole:
            yield _text(raw, first)
            first = False
        if whole and not select.select([descriptor], [], [], PAUSE)[0]:
            yield None
    if last := b"".join(torn):
        yield _text(last, first)


def _text(raw: bytes, first: bool) -> Line:
    if len(raw) > MAX_LINE:
        return TOO_LONG
    try:
        line = raw.removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        return INVALID_UTF8
    if "\0" in line:
        return NUL
    return line.removeprefix("\ufeff") if first else line


def buffers(
    lines: Iterable[Line | None], size: int, parse: Callable[[str, str], T], name: str, first: int = 0
) -> Iterator[list[T]]:
    """Inputs in lists of `size`, shorter where the sender pauses; `parse` takes a line and its location.

    first: number of lines before these. The inputs before a bad line are still given before its DataError.
    """
    buffer: list[T] = []
    number = first
    try:
        for line in lines:
            if line is not None:
                number += 1
                buffer.append(parse(_good(line, f"{name}:{number}"), f"{name}:{number}"))
            if len(buffer) == size or (buffer and line is None):
                yield buffer
                buffer = []
    except DataError:
        if buffer:
            yield buffer
        raise
    if buffer:
        yield buffer


def _good(line: Line, location: str) -> str:
    if isinstance(line, Rejected):
        raise DataError(f"{location}: {line.reason}; expected a line of UTF-8 text. Repair the line")
    return line
