"""The files that make up a treebank: the sections of the Wall Street Journal, any other folder, or one file."""

from __future__ import annotations

__all__ = ["SECTIONS", "Split", "check_overwriting", "treebank_files"]

import re
from typing import TYPE_CHECKING, Literal

from s2s import ConfigError, DataError
from s2s.data import missing_file_error

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Split = Literal["train", "valid", "test"]

SECTIONS: dict[Split, range] = {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)}
"""Sections of the Wall Street Journal by the standard split (the paper's section 6.3)."""

SUFFIX = re.compile(r"\.mrg(\.(gz|bz2|xz|zst))?$", re.IGNORECASE)
SECTION = re.compile(r"wsj_(\d\d)\d\d\.", re.IGNORECASE)  # in folders without sections, by name: wsj_0203.mrg


def treebank_files(path: Path, split: Split | None = None) -> list[Path]:
    """The files under `path`, sorted by name; for a split, only those of its sections."""
    if path.is_file():
        if split:
            raise DataError(f"{path}: is a file, expected a folder with the sections of the Wall Street Journal")
        return [path]
    if not path.is_dir():
        raise (
            DataError(f"{path}: is no file; write a pipe's trees to one") if path.exists() else missing_file_error(path)
        )
    files = sorted(file for file in path.rglob("*") if SUFFIX.search(file.name) and file.is_file())
    if not files:
        raise DataError(f"{path}: no file in this folder is named .mrg or .mrg.gz; name the treebank's files instead")
    _check_duplicates(files)
    return _of_split(path, files, split) if split else files


def check_overwriting(output: Path, inputs: Iterable[Path]) -> None:
    """Raise ConfigError if the file to be written is one of those that are read."""
    if output.resolve() in {path.resolve() for path in inputs}:
        raise ConfigError(f"{output}: both read and written; give another name with -o")


def _check_duplicates(files: Iterable[Path]) -> None:
    """Refuse plain and compressed copies side by side, which would count every tree twice."""
    seen: dict[Path, Path] = {}
    for file in files:
        twin = seen.setdefault(file.with_name(SUFFIX.sub("", file.name)), file)
        if twin is not file:
            raise DataError(f"{file} and {twin.name} are there: two copies, it seems; remove one")


def _of_split(path: Path, files: list[Path], split: Split) -> list[Path]:
    """The files of a split's sections, all of which must exist."""
    sections = [(file, _section(file)) for file in _journal(path, files)]
    lacking = [f"{section:02}" for section in SECTIONS[split] if section not in {number for _, number in sections}]
    if lacking:
        raise DataError(
            f"{path}: sections {', '.join(lacking)} of the Wall Street Journal, which {split} needs, are not there; "
            "expected folders such as wsj/02/wsj_0201.mrg, or name the files of each split yourself"
        )
    return [file for file, number in sections if number in SECTIONS[split]]


def _journal(path: Path, files: list[Path]) -> list[Path]:
    """The files of the Wall Street Journal only, if other corpora of the Penn Treebank lie beside it."""
    journal = [file for file in files if "wsj" in str(file.relative_to(path.parent)).lower()]
    return journal or files


def _section(file: Path) -> int | None:
    if file.parent.name.isdecimal() and len(file.parent.name) == 2:
        return int(file.parent.name)
    named = SECTION.match(file.name)
    return int(named[1]) if named else None
