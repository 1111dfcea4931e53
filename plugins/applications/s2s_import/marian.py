"""Models of Marian itself: model.npz or model.bin, as Firefox has them, with its vocabularies.

Options that Marian writes beside a model (NAME.npz.decoder.yml, NAME.npz.yml, decoder.yml, config.yml) name the
vocabularies, and say how the model is decoded.
"""

from __future__ import annotations

__all__ = ["MarianFormat", "MarianModel"]

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import yaml

from s2s import CheckpointError, ConfigError
from s2s.run import ModelFormat
from s2s_import.by_table import TableModel
from s2s_import.marian_shortlist import find_shortlist, read_shortlist
from s2s_import.marian_vocabularies import PACKED, file_name, find_vocabularies, suffix, unpacked
from s2s_import.search import settings_notes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from s2s import Choice, Registry, Seq2Seq, Side
    from s2s.foreign import ForeignFormat
    from s2s.run import PublishedModel

TABLES = "transformer.marian_npz"
OPTIONS = ("{}.decoder.yml", "decoder.yml", "{}.yml")
"""Files of options beside the model {}; a config*.yml that names it comes before the last"""
MAX_OPTIONS = 1 << 18
"""Bytes of such a file; Marian writes some thousands"""
SEARCHES: dict[str, dict[str, Any]] = {
    ".npz": {"beam": 6, "alpha": 1.0},
    ".bin": {"beam": 1, "alpha": 1.0, "max_len_a": 2.0, "max_len_b": 1},
}
"""Of models without options for decoding: as OPUS-MT decodes, and as Firefox does"""
MAX_LEN = 512
OF_TRAINER = r"\.npz\.|\.iter\d+\."
"""In names of files that Marian's trainer leaves beside a model: its state, and earlier or better models, of which
OPUS-MT publishes one alone"""
METADATA = "metadata.json"
"""In a folder of Firefox: which languages a model has"""


class MarianFormat(ModelFormat):
    """Known by the suffix .npz or .bin, of the path or of one file in a folder."""

    description = "Marian's model.npz or model.bin, or a folder with one, such as Firefox's, and its vocabularies"
    weights = ("*.npz", "model*.bin*")
    files = ("*.spm*", "*.yml", "*.yaml", "lex*.bin*", "metadata.json")

    def __init__(self, config: Choice) -> None:
        pass

    def open(
        self, path: Path, languages: Sequence[str], new_languages: Mapping[str, str | None], registry: Registry
    ) -> PublishedModel | None:
        """The model; raises CheckpointError for a folder with several."""
        files = _models(path) if path.is_dir() else [path] if suffix(path) in SEARCHES else []
        if not files:
            return None
        if new_languages:
            raise ConfigError("new_languages: a model of Marian has no codes of languages")
        if len(files) > 1:
            raise CheckpointError(f"{path} has {len(files)} models, such as {files[0].name}: name one of the files")
        if not files[0].is_file():  # a device, which may have no end
            raise CheckpointError(f"{files[0]} is no file")
        return MarianModel(files[0], languages, registry.get("foreign_format", TABLES).build())


def _models(folder: Path) -> list[Path]:
    """Files of models: .npz, or else .bin; a compressed one only if it is not there unpacked as well."""
    if found := [file for file in sorted(folder.glob("*.npz")) if not file.name.endswith(".optimizer.npz")]:
        return [file for file in found if not re.search(OF_TRAINER, file.name)] or found
    found = [file for file in sorted(folder.glob("model*.bin*")) if suffix(file) == ".bin"]
    return [file for file in found if file.suffix not in PACKED or file.with_suffix("") not in found]


class MarianModel(TableModel):
    """A model.npz or model.bin."""

    def __init__(self, path: Path, languages: Sequence[str], tables: ForeignFormat) -> None:
        self.tables, self.title = tables, "a Transformer of Marian"
        config, self._tensors = tables.open(path)
        option_files = _option_files(path)
        written: dict[str, Any] = {}
        for file in reversed(option_files):
            written |= _read_options(file)
        self._vocabs = vocabs = find_vocabularies(path, written)
        self._shortlist = find_shortlist(path, written)
        lists = [self._shortlist.path] if self._shortlist else []
        self.files = list(dict.fromkeys([path, *option_files, *(file for vocab in vocabs for file in vocab), *lists]))
        codes = dict(zip(("src_lang", "tgt_lang"), languages or _languages(path.parent), strict=False))
        joint, search = vocabs[0].pieces == vocabs[1].pieces, SEARCHES[suffix(path)]
        beam = int(_number(written, "beam-size") or search["beam"])
        self.options = {
            "task": {"name": "translation", "train": [], "subword": {"name": "marian"}, "joint": joint, **codes},
            "arch": {"name": TABLES.partition(".")[0], **tables.read_options(config, self.tensors)},
            "search": {
                **search,
                "name": "beam",
                "beam": beam,
                **({"stop": "first_k"} if beam == 1 else {}),  # Marian then takes the most probable token until eos
                "length_penalty": "power",
                "alpha": _number(written, "normalize", search["alpha"]),
            },
            "train": {"steps": 1},
            "data": {"max_len": MAX_LEN},
        }
        self.notes = settings_notes(self.options)

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """As the table of names expects them."""
        return self._tensors

    def tokenizer_options(self, folder: Path) -> Mapping[str, Any]:
        """The vocabularies as the files of a MarianMTModel."""
        pieces = [vocab.tokens() for vocab in self._vocabs]
        n_tokens = max(map(len, pieces))
        tables = {"vocab.json": pieces[0]}
        if self._vocabs[0].pieces != self._vocabs[1].pieces:
            tables["target_vocab.json"] = pieces[1]
        for name, tokens in tables.items():
            padded = [*tokens, *(f"<unused {i}>" for i in range(len(tokens), n_tokens)), "<pad>"]
            (folder / name).write_text(json.dumps({token: i for i, token in enumerate(padded)}), encoding="utf-8")
        for side, vocab in zip(("source", "target"), self._vocabs, strict=True):
            (folder / f"{side}.spm").write_bytes(unpacked(vocab.segmenter))
        return {"subword": {"name": "marian", "folder": str(folder.absolute())}}

    def recorded(
        self, model: Seq2Seq, arch: Choice, rows: Mapping[Side, Sequence[Sequence[int]]] | None
    ) -> dict[str, dict[str, Tensor]]:
        """With the shortlist, if there is one."""
        groups = super().recorded(model, arch, rows)
        if self._shortlist is None:
            return groups
        pairs = read_shortlist(self._shortlist, *self._vocabs)
        return groups | {"shortlist": pairs.tensors(len(self._vocabs[0].tokens()), rows)}


def _option_files(model: Path) -> list[Path]:
    """Those that are read beside a model, the first of which decides."""
    fixed = [model.with_name(name.format(model.name)) for name in OPTIONS]
    names = {model.name, model.stem if model.suffix in PACKED else model.name}
    of_models = [
        file for file in sorted(model.parent.glob("config*.yml")) if file.is_file() and names & _models_named(file)
    ]
    return [
        *(file for file in fixed[:-1] if file.is_file()),
        *of_models,
        *(file for file in fixed[-1:] if file.is_file()),
    ]


def _models_named(path: Path) -> set[str]:
    """The names of files of models in a file of options for decoding."""
    models = _read_options(path).get("models")
    return {file_name(name) for name in models} if isinstance(models, list) else set()


def _read_options(path: Path) -> dict[str, Any]:
    if (size := path.stat().st_size) > MAX_OPTIONS:
        raise CheckpointError(f"{path} has {size:,} bytes, options at most {MAX_OPTIONS:,}: it is another file")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise CheckpointError(f"{path} is not readable: {str(error).splitlines()[0]}") from None
    return content if isinstance(content, dict) else {}


def _number(options: Mapping[str, Any], name: str, default: float = 0.0) -> float:
    """An option that is a number; raises CheckpointError if it is anything else."""
    value = options.get(name, default)
    if isinstance(value, bool | int | float):  # Marian reads normalize=true as 1
        return float(value)
    raise CheckpointError(f"{name}={value} in the options beside the model is no number")


def _languages(folder: Path) -> list[str]:
    """Of source and target, as Firefox writes them; [] if they are not known."""
    try:
        metadata = json.loads((folder / METADATA).read_text(encoding="utf-8"))
        return [str(metadata[f"{side}Language"]) for side in ("source", "target")]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
