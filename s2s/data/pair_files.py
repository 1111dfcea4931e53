"""How file names are read as corpora of pairs."""

from __future__ import annotations

__all__ = ["PAIR_FILES"]

import os
import re
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.data.compression import without_suffix
from s2s.data.corpus_options import FileForm
from s2s.data.text import pair_format

if TYPE_CHECKING:
    from collections.abc import Sequence

LANGUAGE = re.compile(r"\.([a-z]{2}(?:[-_]\w{2,4})?)", re.ASCII)
"""The end of a file name that is a code of ISO 639-1, also one with a region or a script, such as pt-BR"""
SPREADSHEET = "soffice --headless --convert-to xlsx {file}"
CONVERTERS = {
    ".xls": SPREADSHEET,
    ".xlsb": SPREADSHEET,
    ".ods": SPREADSHEET,
    ".mo": "msgunfmt {file} -o {stem}.po",
    ".tbx": "tbx2po {file} {stem}.po",
    ".ts": "ts2po {file} {stem}.po",
    ".resx": "resx2po -t SOURCE.resx {file} {stem}.po",
    ".properties": "prop2po -t SOURCE.properties {file} {stem}.po",
    ".sgm": "sed -n 's:.*<seg[^>]*>\\(.*\\)</seg>.*:\\1:p' {file} > {stem}.txt",
    ".sgml": "sed -n 's:.*<seg[^>]*>\\(.*\\)</seg>.*:\\1:p' {file} > {stem}.txt",
    ".zip": "unzip {file}",
    ".7z": "7z x {file}",
    ".rar": "unrar x {file}",
    ".db": "sqlite3 -csv {file} 'SELECT source, target FROM pairs' > {stem}.csv",
    ".sqlite": "sqlite3 -csv {file} 'SELECT source, target FROM pairs' > {stem}.csv",
}
"""Names of files that are not read, and commands that convert them"""


def _is_one(files: Sequence[Any]) -> bool:
    """Whether a list of file names is one corpus, which it is unless each file or folder contains pairs."""
    return any(isinstance(file, str | os.PathLike) and not _holds_pairs(Path(file)) for file in files)


def _holds_pairs(path: Path) -> bool:
    return pair_format(path) is not None or os.path.isdir(path)  # noqa: PTH112  Path's own raises on a name too long


def _are_parallel(files: Sequence[Path]) -> bool:
    return len(files) in (1, 2)  # what a single file holds is seen when it is read


def _common_name(files: Sequence[Path]) -> str:
    """The common beginning of the file names, or the first name: corpus.en, corpus.de -> corpus."""
    first = without_suffix(files[0]).name
    if len(files) == 1:
        return Path(first).stem or first
    same = takewhile(lambda ab: ab[0] == ab[1], zip(first, without_suffix(files[1]).name, strict=False))
    return "".join(a for a, _ in same).rstrip(".-_") or first


def _languages_of(files: Sequence[str]) -> tuple[str, str]:
    """Source and target language of two parallel files by the ends of their names; empty: unknown."""
    if len(files) != 2:
        return "", ""
    src, tgt = (
        next(
            (
                match[1]
                for suffix in reversed(without_suffix(Path(file)).suffixes)
                if (match := LANGUAGE.fullmatch(suffix))
            ),
            "",
        )
        for file in files
    )
    return (src, tgt) if src and tgt and src != tgt else ("", "")


def _remedy(files: Sequence[Path]) -> str:
    """What converts the first file that is not read; empty if all are."""
    for file in files:
        plain = without_suffix(file)
        if len(files) > 1 and len(plain.suffix) == 3:
            continue  # corpus.ts may be Tsonga
        if command := CONVERTERS.get(plain.suffix.lower()):
            return f"{plain.suffix} is not read; convert it: {command.format(file=file, stem=plain.with_suffix(''))}"
    return ""


PAIR_FILES = FileForm(
    "parallel",
    is_one=_is_one,
    accepts=_are_parallel,
    name_of=_common_name,
    expected="two parallel files: {key}=[corpus.en,corpus.de], one file of pairs: {key}=pairs.tsv (or .csv, .jsonl, "
    ".xlsx, .parquet, .tmx, .xliff, .po), or a list of such corpora",
    remedy=_remedy,
    languages=_languages_of,
)
"""Two parallel files, or one file or folder of pairs."""
