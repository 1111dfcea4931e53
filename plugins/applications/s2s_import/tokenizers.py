"""How texts become the ids of a published model: options of the task."""

from __future__ import annotations

__all__ = ["text_options"]

from typing import TYPE_CHECKING, Any

from s2s import CheckpointError
from s2s.io import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TOKENIZER_CONFIG = "tokenizer_config.json"


def text_options(folder: Path, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the task by the files in a model's folder: those of its run, and those that take over the files."""
    if (folder / "vocab.json").is_file() and (folder / "source.spm").is_file():
        ids = {i: piece for piece, i in read_json(folder / "vocab.json").items()}
        start = ids[config.get("decoder_start_token_id", config["pad_token_id"])]
        subword: dict[str, Any] = {"name": "marian", "start": [start]}
        taken_over = {"subword": {**subword, "folder": str(folder.absolute())}}
        return {"subword": subword, **_languages(folder)}, taken_over
    raise CheckpointError(f"{folder} has no files of a tokeniser that is read here: vocab.json with source.spm")


def _languages(folder: Path) -> dict[str, str]:
    path = folder / TOKENIZER_CONFIG
    settings = read_json(path) if path.is_file() else {}
    names = {"src_lang": settings.get("source_lang"), "tgt_lang": settings.get("target_lang")}
    return {name: value for name, value in names.items() if isinstance(value, str) and value}
