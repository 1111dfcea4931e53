"""LibreTranslate's /translate_file and /download_file: documents that are uploaded, and their translations."""

from __future__ import annotations

__all__ = ["StoredFiles", "Upload", "disposition", "translated_name", "uploaded"]

import re
import time
import uuid
from collections import OrderedDict
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from starlette.datastructures import UploadFile

from s2s_serve.refusal import RefusedError, too_large

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import Request

MAX_FILES = 64
"""Stored at once; the oldest ones go first"""


class Upload(NamedTuple):
    """A form with a file."""

    fields: dict[str, str]
    name: str
    """Of the file, without folders"""
    data: bytes


async def uploaded(request: Request, max_bytes: int) -> Upload:
    """The form of a request; raises RefusedError without a file, or for one that is too large."""
    if not find_spec("python_multipart"):
        raise RefusedError(501, "no_forms", "this server takes no files: pip install python-multipart")
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise RefusedError(400, "bad_request", "Invalid request: send a form, as multipart/form-data, with a file")
    async with request.form(max_files=1, max_fields=16) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile) or not file.filename:
            raise RefusedError(400, "bad_request", "Invalid request: missing file parameter")
        data = await file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise too_large(f"the file is longer than {max_bytes:,} bytes")
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        return Upload(fields, PurePosixPath(file.filename.replace("\\", "/")).name, data)


class _Stored(NamedTuple):
    data: bytes
    until: float


class StoredFiles:
    """Translated documents in memory, each under a name that cannot be guessed, for some time."""

    def __init__(self, seconds: float, max_bytes: int, now: Callable[[], float] = time.monotonic) -> None:
        """max_bytes: of all."""
        self.seconds, self.max_bytes, self.now = seconds, max_bytes, now
        self.files: OrderedDict[str, _Stored] = OrderedDict()

    def add(self, name: str, data: bytes) -> str:
        """The name under which a file is stored from now on."""
        stored = f"{uuid.uuid4()}.{name}"
        self.files[stored] = _Stored(data, self.now() + self.seconds)
        self._remove_old()
        while len(self.files) > 1 and (len(self.files) > MAX_FILES or self.n_bytes > self.max_bytes):
            self.files.popitem(last=False)
        return stored

    def get(self, name: str) -> bytes:
        """A file; raises RefusedError if it is not stored, or not any more."""
        self._remove_old()
        if name not in self.files:
            raise RefusedError(404, "not_found", "no such file, or not any more")
        return self.files[name].data

    @property
    def n_bytes(self) -> int:
        """Of all files."""
        return sum(len(stored.data) for stored in self.files.values())

    def _remove_old(self) -> None:
        while self.files and next(iter(self.files.values())).until <= self.now():
            self.files.popitem(last=False)


def translated_name(name: str, target: str) -> str:
    """As LibreTranslate calls a translation: page.html is page_de.html; other characters than of words are _."""
    path = PurePosixPath(re.sub(r"[^\w.-]+", "_", name))
    return f"{path.stem}_{target}{path.suffix}"


def disposition(name: str) -> dict[str, str]:
    """Headers of a file to save, under its name without what makes it unique."""
    shown = name.partition(".")[2]
    return {
        "content-disposition": f"attachment; filename*=utf-8''{quote(shown, safe='')}",
        "x-content-type-options": "nosniff",
    }
