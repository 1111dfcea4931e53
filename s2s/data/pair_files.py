"""How file names are read as corpora of pairs."""

from __future__ import annotations

__all__ = ["PAIR_FILES", "languages_of"]

import os
import re
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.data.corpus_options import FileForm
from s2s.data.text import pair_format

if TYPE_CHECKING:
    from collections.abc import Sequence

LANGUAGE = re.compile(r"\.([a-z]{2}(?:[-_]\w{2,4})?)", re.ASCII)
"""The end of a file name that is a code of ISO 639-1, also one with a region or a script, such as pt-BR"""


def _is_one(files: Sequence[Any]) -> bool:
    """Whether a list of file names is one corpus, which it is unless each file contains pairs."""
    return any(isinstance(file, str | os.PathLike) and not pair_format(Path(file)) for file in files)


def _are_parallel(files: Sequence[Path]) -> bool:
    return len(files) == 2 or (len(files) == 1 and pair_format(files[0]) is not None)


def _common_name(files: Sequence[Path]) -> str:
    """The common beginning of the file names, or the first name: corpus.en, corpus.de -> corpus."""
    first = files[0].name.removesuffix(".gz")
    if len(files) == 1:
        return Path(first).stem or first
    same = takewhile(lambda ab: ab[0] == ab[1], zip(first, files[1].name.removesuffix(".gz"), strict=False))
    return "".join(a for a, _ in same).rstrip(".-_") or first


def languages_of(files: Sequence[str]) -> tuple[str, str]:
    """Source and target language of two parallel files by the ends of their names; empty: unknown."""
    if len(files) != 2:
        return "", ""
    src, tgt = (
        next((match[1] for suffix in reversed(Path(file).suffixes) if (match := LANGUAGE.fullmatch(suffix))), "")
        for file in files
    )
    return (src, tgt) if src and tgt and src != tgt else ("", "")


PAIR_FILES = FileForm(
    "parallel",
    is_one=_is_one,
    accepts=_are_parallel,
    name_of=_common_name,
    expected="two parallel files: {key}=[corpus.en,corpus.de], one file of pairs: {key}=pairs.tsv or "
    "{key}=pairs.jsonl.gz, or a list of such corpora",
)
"""Two parallel files, or one whose name ends in .tsv or .jsonl."""
