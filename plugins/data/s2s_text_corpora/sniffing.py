"""The format of a file whose name does not show it."""

from __future__ import annotations

__all__ = ["sniffed"]

import re
from typing import TYPE_CHECKING

from s2s import DataError
from s2s.data import open_bytes

if TYPE_CHECKING:
    from pathlib import Path

FIRST_BYTES = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"{": "json",
    b"[": "json",
    b'msgid "': "po",
    b"msgctxt ": "po",
}
ROOT = re.compile(rb"<(?:\w+:)?(tmx|xliff)[\s>]")
N_BYTES = 4096


def sniffed(path: Path) -> str:
    """The name of its format; raises DataError, with what to give instead, for one line a text."""
    with open_bytes(path, text=False) as file:
        start = file.read(N_BYTES)
    text = start.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \r\n\t")
    for first, form in FIRST_BYTES.items():
        if start.startswith(first) or (len(first) < 10 and text.startswith(first) and first.isascii()):
            return form
    if root := ROOT.search(text):
        return root[1].decode()
    if b'\nmsgid "' in text:
        return "po"
    first_line = start.partition(b"\n")[0]
    if b"\t" in first_line or b" ||| " in first_line:
        return "tsv" if b"\t" in first_line else "bars"
    raise DataError(
        f"{path}: is one file, and its first line has no tab; give the files of both sides, task.train=[corpus.en,"
        "corpus.de], or a file of pairs (.tsv, .csv, .jsonl, .xlsx, .parquet, .tmx, .xliff, .po)"
    )
