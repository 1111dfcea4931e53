"""Folders of Hugging Face's transformers: config.json, the weights, and the tokeniser's files.

Which families are read follows from the entries of `foreign_format`, each of which names its `model_types`; how a
family's texts become ids, from `s2s_import.tokenizers`.
"""

from __future__ import annotations

__all__ = ["HuggingFaceFormat", "HuggingFaceModel"]

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from s2s import CheckpointError
from s2s.foreign import ForeignFormat, open_tensors
from s2s.io import read_json
from s2s.run import ModelFormat
from s2s_import.by_table import TableModel
from s2s_import.search import generation_settings, search_options, settings_notes, unused_settings
from s2s_import.tokenizers import text_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from s2s import Choice, Registry
    from s2s.run import PublishedModel

CONFIG, GENERATION = "config.json", "generation_config.json"
DROPOUTS = {"dropout": "dropout", "attention_dropout": "attention_dropout", "activation_dropout": "relu_dropout"}


class HuggingFaceFormat(ModelFormat):
    """Known by its config.json, which names a `model_type`."""

    description = f"a folder of Hugging Face's transformers, with {CONFIG}"
    weights = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin", "pytorch_model-*.bin")
    files = ("*.json", "*.spm", "*.model", "*.txt")

    def __init__(self, config: Choice) -> None:
        pass

    def open(
        self, path: Path, languages: Sequence[str], new_languages: Mapping[str, str | None], registry: Registry
    ) -> PublishedModel | None:
        """The model in a folder; raises CheckpointError for a family that is not read."""
        if not (path / CONFIG).is_file():
            return None
        config = _read(path / CONFIG)
        names = registry.names("foreign_format")
        tables = [(name, registry.get("foreign_format", name).build()) for name in names]
        families = {kind: (name.partition(".")[0], one) for name, one in tables for kind in one.model_types}
        if (kind := str(config.get("model_type"))) not in families:
            known = ", ".join(sorted(families))
            raise CheckpointError(f"{path / CONFIG}: model_type={kind} is no family that is read here; known: {known}")
        arch, family = families[kind]
        with _as_transformers_writes(path):
            return HuggingFaceModel(path, config, family, arch, languages, new_languages)


class HuggingFaceModel(TableModel):
    """A model of a family whose tables of names are known."""

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        tables: ForeignFormat,
        arch: str,
        languages: Sequence[str],
        new_languages: Mapping[str, str | None],
    ) -> None:
        self.folder, self.tables = folder, tables
        self.title = f"{tables.title} of Hugging Face's transformers"
        weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
        texts = [path for suffix in ("json", "spm", "model", "txt") for path in sorted(folder.glob(f"*.{suffix}"))]
        self.files = [*texts, *weights]
        generation = _read(folder / GENERATION) if (folder / GENERATION).is_file() else None
        settings = generation_settings(config, generation)
        special = _special_tokens(config, settings)
        self._texts = text_options(folder, special, languages, new_languages)
        self.new_rows = self._texts.new
        dropouts = {ours: float(config[theirs]) for theirs, ours in DROPOUTS.items() if theirs in config}
        options = tables.read_options(config, self.tensors)
        arch_options = {"name": arch, **options, **dropouts}
        self.options = {
            "task": {"name": "translation", "train": [], **self._texts.options},
            "arch": arch_options,
            "search": search_options(settings, self._texts.n_start),
            "train": {"steps": 1},
            "data": {"max_len": int(config.get("max_position_embeddings") or 512)},
        }
        unused = unused_settings(config, settings, pad=special.get("pad_token_id"))
        self.notes = [*settings_notes(self.options), *unused]

    def tokenizer_options(self, folder: Path) -> Mapping[str, Any]:
        """The files in the model's folder, or those that are made of them."""
        return self._texts.take_over(folder)

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """Of all files of weights."""
        return open_tensors(self.folder)


def _special_tokens(config: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """config.json with the special tokens of the settings, of which those that are forced count alone."""
    unforced = {name: value for name, value in config.items() if not name.startswith("forced_")}
    special = {**unforced, **settings}
    eos = special.get("eos_token_id")
    return {**special, "eos_token_id": eos[0] if isinstance(eos, list) else eos}


@contextmanager
def _as_transformers_writes(path: Path) -> Iterator[None]:
    """Raise CheckpointError, inside the block, for files with other contents than transformers writes."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise CheckpointError(f"{path}: its files are not as transformers writes them ({what})") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not readable: {error}") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is no JSON object")
    return content
