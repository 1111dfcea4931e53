"""Writes the body of a request to a file as it arrives."""

from __future__ import annotations

__all__ = ["check_text", "write_upload"]

import codecs
import json
import os
from typing import TYPE_CHECKING

from s2s.io import open_own
from s2s_serve.refusal import invalid, too_large

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


async def write_upload(path: Path, body: AsyncIterator[bytes], max_bytes: int) -> int:
    """The number of lines written; raises RefusedError for a text that is empty, too long or not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    n_bytes = n_lines = 0
    last = b"\n"
    with open_own(path, "wb") as file:
        async for chunk in body:
            n_bytes += len(chunk)
            if n_bytes > max_bytes:
                raise too_large(f"the file is longer than {max_bytes:,} bytes")
            _check_utf8(decoder, chunk)
            n_lines, last = n_lines + chunk.count(b"\n"), chunk[-1:] or last
            file.write(chunk)
        _check_utf8(decoder, b"", final=True)
        file.flush()
        os.fsync(file.fileno())
    if not n_bytes:
        raise invalid("the file is empty; send its text as the body")
    return n_lines + (last != b"\n")


def check_text(path: Path) -> None:
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
