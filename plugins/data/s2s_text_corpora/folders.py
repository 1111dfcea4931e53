"""Folders of data files, as `datasets` saves them or the Hugging Face Hub has them."""

from __future__ import annotations

__all__ = ["dataset_files"]

import json
import re
from typing import TYPE_CHECKING

from s2s import DataError
from s2s.data import pair_format

if TYPE_CHECKING:
    from pathlib import Path

SPLITS = {
    "train": {"train", "training"},
    "valid": {"valid", "validation", "dev", "val", "development"},
    "test": {"test", "testing"},
}
"""The names that splits have in folders and files"""
FORMATS = {"parquet", "arrow", "jsonl", "json", "csv", "tsv", "tar"}
DESCRIPTIONS = {"dataset_info.json", "dataset_dict.json", "dataset_infos.json", "state.json"}
"""Files of `datasets` without examples"""
WORDS = re.compile(r"[^a-z]+")


def dataset_files(folder: Path, split: str) -> list[Path]:
    """The data files of a split, sorted; all of them where nothing names a split.

    Raises DataError where there are none, or only of other splits.
    """
    files = [file for file in sorted(folder.rglob("*")) if _has_examples(file)]
    if not files:
        raise DataError(
            f"{folder}: no file in this folder holds pairs; expected .parquet, .arrow, .jsonl, .csv, .tsv or .tar"
        )
    by_split: dict[str, list[Path]] = {}
    for file in files:
        by_split.setdefault(_split_of(file, folder), []).append(file)
    if by_split.keys() == {""}:
        return files
    if split not in by_split:
        raise DataError(f"{folder}: has no files of {split}, but of {', '.join(filter(None, sorted(by_split)))}")
    return by_split[split]


def _has_examples(file: Path) -> bool:
    if not file.is_file() or file.name in DESCRIPTIONS or file.name.startswith((".", "cache-")):
        return False
    if pair_format(file) not in FORMATS:
        return False
    state = file.with_name("state.json")
    return not (file.suffix == ".arrow" and state.is_file()) or file.name in _named_in(state)


def _named_in(state: Path) -> set[str]:
    """The data files of a saved data set; raises DataError if its rows are selected by another file."""
    try:
        read = json.loads(state.read_bytes())
        if read.get("_indices_data_files"):
            raise DataError(f"{state.parent}: its rows are selected by indices; save it after flatten_indices()")
        return {one["filename"] for one in read["_data_files"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{state}: not written by save_to_disk ({type(error).__name__})") from None


def _split_of(file: Path, folder: Path) -> str:
    """The split by the names of a file and of the folders around it; empty if there is none."""
    parts = file.relative_to(folder).parts
    for part in reversed(parts):
        words = WORDS.split(part.lower())
        for split, names in SPLITS.items():
            if names & set(words):
                return split
    return ""
