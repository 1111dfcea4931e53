"""Checkpoints of fairseq, with the dictionaries beside them, and the codes of BPE or a model of sentencepiece."""

from __future__ import annotations

__all__ = ["FairseqFormat", "FairseqModel"]

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import CheckpointError, ConfigError
from s2s.io import write_file
from s2s.run import ModelFormat
from s2s_import.by_table import TableModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from s2s import Choice, Registry
    from s2s.foreign import ForeignFormat
    from s2s.run import PublishedModel

TABLES = "transformer.fairseq"
NAMES = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
"""In a folder, in this order; else the only one"""
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
OVERWRITE = "#fairseq:overwrite"
CODES = ("*codes*", "code", "*.bpe")
SPM = ("*.model", "*.spm")
SPM_BPE, NO_BPE = ("sentencepiece",), (None, "characters")
CODE_BPE = ("subword_nmt", "fastbpe")
SOURCE, TARGET = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
BEAM, LONGEST = 5, 200
"""The defaults of fairseq-generate"""


class FairseqFormat(ModelFormat):
    """Known by the suffix .pt, of the path or of a file in a folder without config.json."""

    description = "a checkpoint .pt of fairseq, or a folder with one, and its dict.LANGUAGE.txt"
    weights = (*NAMES, "*.pt")
    files = ("dict*.txt", *SPM, *CODES)

    def __init__(self, config: Choice) -> None:
        pass

    def open(
        self, path: Path, languages: Sequence[str], new_languages: Mapping[str, str | None], registry: Registry
    ) -> PublishedModel | None:
        """The model; raises CheckpointError for one that is not read."""
        file = _in_folder(path) if path.is_dir() else path if path.suffix == ".pt" else None
        if file is None:
            return None
        if new_languages:
            raise ConfigError("new_languages: a checkpoint of fairseq has no codes of languages that are read")
        return FairseqModel(file, languages, registry.get("foreign_format", TABLES).build())


def _in_folder(folder: Path) -> Path | None:
    """The checkpoint in a folder; None for a folder of another format."""
    files = sorted(folder.glob("*.pt"))
    if not files or (folder / "config.json").is_file():
        return None
    named = [folder / name for name in NAMES if folder / name in files]
    if not named and len(files) > 1:
        raise CheckpointError(f"{folder} has {len(files)} checkpoints, such as {files[0].name}: name one of the files")
    return [*named, *files][0]


class FairseqModel(TableModel):
    """A checkpoint for the task translation."""

    def __init__(self, path: Path, languages: Sequence[str], tables: ForeignFormat) -> None:
        self.tables, self.title = tables, "a Transformer of fairseq"
        config, self._tensors = tables.open(path)
        if (task := config.get("task") or "translation") != "translation":
            raise CheckpointError(f"{path} is of task={task}, which is not read; only task=translation is")
        src, tgt = languages or (config.get("source_lang"), config.get("target_lang"))
        dictionaries = [_dictionary_of(path, language) for language in (src, tgt)]
        self._tokens = [_tokens(file) for file in dictionaries]
        self._joint = self._tokens[0] == self._tokens[1]
        self._segmenters = _segmenters(path, config, self._tokens)
        self.files = list(dict.fromkeys([path, *dictionaries, *self._segmenters]))
        codes = {f"{side}_lang": str(code) for side, code in (("src", src), ("tgt", tgt)) if code}
        self._subword = self._subword_options(config, codes)
        self.options = {
            "task": {"name": "translation", "train": [], "subword": self._subword, "joint": self._joint, **codes},
            "arch": {"name": TABLES.partition(".")[0], **tables.read_options(config, self.tensors)},
            "search": {
                "name": "beam",
                "beam": int(config.get("beam") or BEAM),
                "length_penalty": "power",
                "alpha": float(config.get("lenpen") or 1.0),
                "max_len_a": float(config.get("max_len_a") or 0.0),
                "max_len_b": int(config.get("max_len_b") or LONGEST),
            },
            "train": {"steps": 1},
            "data": {"max_len": min(1024, int(config.get("max_source_positions") or 1024))},
        }
        words = self._subword.get("moses")
        self.notes = [f"words are separated as Moses does for {' and '.join(words)}"] if words else []

    def _subword_options(self, config: Mapping[str, Any], codes: Mapping[str, str]) -> dict[str, Any]:
        before = ["<s>"] if config.get("prepend_bos") else []
        around: dict[str, Any] = {"start": ["</s>"], "before": before}
        if self._segmenters and self._segmenters[0].suffix in (".model", ".spm"):
            return {"name": "marian", "tags": False, **around}
        is_moses = (config.get("tokenizer") or "moses") == "moses" and bool(self._segmenters)
        return {"name": "fairseq", "moses": list(codes.values()) if is_moses else [], **around}

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """As the table of names expects them."""
        return self._tensors

    def tokenizer_options(self, folder: Path) -> Mapping[str, Any]:
        """The dictionaries as vocabularies in JSON, and what cuts texts."""
        is_spm = self._subword["name"] == "marian"
        sizes = [len(self.tensors[name]) for name in (SOURCE, TARGET)]
        names = ("vocab.json",) if is_spm and self._joint else ("vocab.json", "target_vocab.json")
        for name, tokens, size in zip(names, self._tokens, sizes, strict=False):
            padded = [*tokens, *(f"<unused {i}>" for i in range(len(tokens), size))]
            write_file(folder / name, json.dumps({token: i for i, token in enumerate(padded)}).encode())
        for name, file in zip(("source.spm", "target.spm") if is_spm else ("codes",), self._both(), strict=False):
            write_file(folder / name, file.read_bytes())
        return {"subword": {**self._subword, "folder": str(folder.absolute())}}

    def _both(self) -> Sequence[Path]:
        return [*self._segmenters, *self._segmenters[-1:]]


def _dictionary_of(path: Path, language: Any) -> Path:
    names = ([f"dict.{language}.txt"] if language else []) + ["dict.txt"]
    found = next((path.with_name(name) for name in names if path.with_name(name).is_file()), None)
    if found is None:
        others = [file.name for file in sorted(path.parent.glob("dict.*.txt"))]
        there = f"; there are {', '.join(others)}: give s2s-import languages=[SOURCE,TARGET]" if others else ""
        raise CheckpointError(f"{path} needs its dictionary {names[0]} beside it{there}")
    return found


def _tokens(path: Path) -> list[str]:
    """The tokens of a dictionary by their ids: special ones, then a line for each, with its number of occurrences."""
    tokens: dict[str, None] = dict.fromkeys(SPECIAL)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not readable: {error}") from None
    for number, line in enumerate(lines, 1):
        token, _, count = line.removesuffix(OVERWRITE).rstrip(" ").rpartition(" ")
        if not line:
            continue
        if not count.isdigit() or (token in tokens and not line.endswith(OVERWRITE)):
            raise CheckpointError(
                f"{path}: line {number} is no token with its number, or is there twice: {line[:60]!r}"
            )
        if token in tokens:
            token = f"<overwritten {token} {number}>"
        tokens[token] = None
    return list(tokens)


def _segmenters(path: Path, config: Mapping[str, Any], tokens: Sequence[Sequence[str]]) -> list[Path]:
    """The files that cut words into tokens: a model of sentencepiece for both sides or two, codes, or none."""
    kind = config.get("bpe")
    if kind not in (*SPM_BPE, *CODE_BPE, *NO_BPE):
        raise CheckpointError(
            f"{path} has texts in bpe={kind}, which is not read; {', '.join((*SPM_BPE, *CODE_BPE))} are"
        )
    named = [config.get(name) for name in ("sentencepiece_model", "bpe_codes")]
    files = [path.with_name(Path(str(name)).name) for name in named if name]
    found = [file for file in files if file.is_file()][:1]
    patterns = CODES if kind in CODE_BPE else SPM if kind in SPM_BPE else (*SPM, *CODES)
    for pattern in patterns:
        found = found or sorted(file for file in path.parent.glob(pattern) if file.is_file())
    if len(found) == 2 and found[0].suffix in (".model", ".spm"):
        by_side = [
            [file for file in found if f".{config.get(side)}." in file.name] for side in ("source_lang", "target_lang")
        ]
        found = [file for files in by_side for file in files] if all(len(files) == 1 for files in by_side) else []
    has_parts = any(token.endswith("@@") or token.startswith("▁") for side in tokens for token in side)
    if not found and (kind or has_parts):
        raise CheckpointError(
            f"{path} needs what cuts its texts into tokens beside it: a model of sentencepiece (.model), or BPE codes"
        )
    return found[:2]
