"""Lines of a file, or of a pipe as they arrive."""

from __future__ import annotations

__all__ = ["lines_of", "piped"]

import os
import select
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.data.text import INVALID_UTF8, MAX_LINE, NUL, TOO_LONG, Line, open_bytes
from s2s.generation.files.streams import is_stream, standard_input

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 1 << 16
"""Bytes read at once"""
PAUSE = 0.05
"""Seconds without a byte after which the sender is assumed to be waiting for a reply"""


def lines_of(path: str) -> Iterator[Line | None]:
    """The lines of a file, plain or gzip, or of a pipe (- is standard input), in which None marks a pause.

    Each has its end, \\n or \\r\\n, which the last line may lack. Nothing follows a line that is too long.
    """
    if path == "-":
        return piped(standard_input().fileno())
    if is_stream(path):
        return piped(os.open(path, os.O_RDONLY))
    return _stored(Path(path))


def _stored(path: Path) -> Iterator[Line]:
    with open_bytes(path) as file:
        while raw := file.readline(MAX_LINE + 2):
            line = _text(raw)
            yield line
            if line is TOO_LONG:
                return


def piped(descriptor: int) -> Iterator[Line | None]:
    """Lines as they arrive, and None when nothing has arrived for `PAUSE` seconds."""
    torn: list[bytes] = []
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
            yield _text(raw + b"\n")
        if whole and not select.select([descriptor], [], [], PAUSE)[0]:
            yield None
    if last := b"".join(torn):
        yield _text(last)


def _text(raw: bytes) -> Line:
    if len(raw.removesuffix(b"\n")) > MAX_LINE:
        return TOO_LONG
    try:
        line = raw.decode()
    except UnicodeDecodeError:
        return INVALID_UTF8
    if "\0" in line:
        return NUL
    return line
