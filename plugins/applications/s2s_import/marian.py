"""Models of Marian itself: model.npz with its vocabularies.

Options that Marian writes beside a model (NAME.npz.decoder.yml, NAME.npz.yml, decoder.yml) name the vocabularies, and
say how the model is decoded.
"""

from __future__ import annotations

__all__ = ["MarianFormat", "MarianModel"]

import json
import shutil
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sentencepiece
import yaml

from s2s import CheckpointError
from s2s.run import ModelFormat
from s2s_import.by_table import TableModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from s2s import Choice, Registry
    from s2s.foreign import ForeignFormat
    from s2s.run import PublishedModel

TABLES = "transformer.marian_npz"
OPTIONS = ("{}.decoder.yml", "decoder.yml", "{}.yml")
BEAM, NORMALIZE = 6, 1.0
"""Of models without options for decoding, as OPUS-MT decodes"""
MAX_LEN = 512


class MarianFormat(ModelFormat):
    """Known by the suffix .npz, of the path or of one file in a folder."""

    description = "Marian's model.npz, or a folder with one, and its vocabularies (.spm)"

    def __init__(self, config: Choice) -> None:
        pass

    def open(self, path: Path, languages: Sequence[str], registry: Registry) -> PublishedModel | None:
        """The model; raises CheckpointError for a folder with several."""
        files = sorted(path.glob("*.npz")) if path.is_dir() else [path] if path.suffix == ".npz" else []
        if not files:
            return None
        if len(files) > 1:
            raise CheckpointError(f"{path} has {len(files)} models, such as {files[0].name}: name one of the files")
        return MarianModel(files[0], languages, registry.get("foreign_format", TABLES).build())


class MarianModel(TableModel):
    """A model.npz."""

    def __init__(self, path: Path, languages: Sequence[str], tables: ForeignFormat) -> None:
        self.tables, self.title = tables, "a Transformer of Marian"
        config, self._tensors = tables.open(path)
        names = [path.with_name(name.format(path.name)) for name in OPTIONS]
        option_files = [file for file in names if file.is_file()]
        written: dict[str, Any] = {}
        for file in reversed(option_files):
            written |= _read_options(file)
        vocabs = _vocabularies(path, written)
        self.files = [path, *option_files, *dict.fromkeys(vocabs)]
        self.kept = [*sorted(path.parent.glob("LICENSE*")), *path.parent.glob("README.md")]
        joint = vocabs[0] == vocabs[1]
        self._vocabs = vocabs
        codes = dict(zip(("src_lang", "tgt_lang"), languages, strict=False))
        self.options = {
            "task": {"name": "translation", "train": [], "subword": {"name": "marian"}, "joint": joint, **codes},
            "arch": {"name": TABLES.partition(".")[0], **tables.read_options(config, self.tensors)},
            "search": {
                "name": "beam",
                "beam": int(written.get("beam-size") or BEAM),
                "length_penalty": "power",
                "alpha": float(written.get("normalize", NORMALIZE)),
            },
            "train": {"steps": 1},
            "data": {"max_len": MAX_LEN},
        }

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """As the table of names expects them."""
        return self._tensors

    def tokenizer_options(self, folder: Path) -> Mapping[str, Any]:
        """The vocabularies as the files of a MarianMTModel."""
        pieces = {side: _pieces(file) for side, file in zip(("source", "target"), self._vocabs, strict=True)}
        n_tokens = max(map(len, pieces.values()))
        tables = {"vocab.json": pieces["source"]}
        if self._vocabs[0] != self._vocabs[1]:
            tables["target_vocab.json"] = pieces["target"]
        for name, tokens in tables.items():
            padded = [*tokens, *(f"<unused {i}>" for i in range(len(tokens), n_tokens)), "<pad>"]
            (folder / name).write_text(json.dumps({token: i for i, token in enumerate(padded)}), encoding="utf-8")
        for side, file in zip(pieces, self._vocabs, strict=True):
            shutil.copyfile(file, folder / f"{side}.spm")
        return {"subword": {"name": "marian", "folder": str(folder.absolute())}}


def _read_options(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise CheckpointError(f"{path} is not readable: {str(error).splitlines()[0]}") from None
    return content if isinstance(content, dict) else {}


def _vocabularies(path: Path, options: Mapping[str, Any]) -> tuple[Path, Path]:
    """The models of sentencepiece of source and target, by the names in the options or else in the folder."""
    named = options.get("vocabs")
    names = [Path(str(name)).name for name in named] if isinstance(named, list) else []
    files = [path.parent / name for name in names]
    if len(files) != 2 or not all(file.is_file() and file.suffix == ".spm" for file in files):
        files = sorted(path.parent.glob("*.spm"))
    sides = [path.parent / f"{side}.spm" for side in ("source", "target")]
    files = sides if all(file in files for file in sides) else files
    if len(files) not in (1, 2):
        raise CheckpointError(
            f"{path} has no vocabularies that are read beside it: one .spm of both sides, or source.spm and target.spm"
        )
    return files[0], files[-1]


def _pieces(path: Path) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(path.read_bytes())
    except (RuntimeError, OSError) as error:
        raise CheckpointError(f"{path} is no model of sentencepiece: {error}") from None
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    if pieces[:2] != ["</s>", "<unk>"]:
        raise CheckpointError(f"{path}: a vocabulary of Marian begins with </s> and <unk>, not {', '.join(pieces[:2])}")
    return pieces
