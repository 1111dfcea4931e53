"""Translation, as a plugin: parallel text in, detokenised text out; without files, a synthetic corpus."""

from __future__ import annotations

__all__ = ["TranslationConfig"]

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, Registry, hookimpl
from s2s.data import TextConfig

if TYPE_CHECKING:
    from s2s_translation.task import Translation

SYNTHETIC_VOCAB_SIZE = 1_000


@dataclass(kw_only=True)
class TranslationConfig(TextConfig):
    """Text from one language into another."""

    train: Any = None
    """Training text: [corpus.en,corpus.de], a file of pairs (.tsv, .csv, .jsonl, .json, .xlsx, .parquet, .arrow, .tmx,
    .xliff, .po), a folder of them, or several corpora as {name: {files: [a.en,a.de], weight: 2}, …}; text may be
    compressed (.gz, .bz2, .xz, .zst). {corpus: NAME, …}: a corpus of a plugin, with
    its options. null: the synthetic corpus."""
    valid: Any = None
    """Development text, in the same forms; null: none, or the synthetic corpus's own."""
    vocab_size: int | None = None
    """Size of the vocabulary, special tokens included; null: 37,000 (section 5.1), 1,000 for the synthetic corpus."""
    pairs: int = 20_000
    """Training pairs of the synthetic corpus."""
    synthetic_seed: int = 1
    """Seed of the synthetic corpus."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairs < 1:
            raise ConfigError(f"task.pairs={self.pairs}: give 1 or more")
        if self.context and not self.train:
            raise ConfigError(f"task.context={self.context} needs task.train: the synthetic corpus has no documents")

    @property
    def default_size(self) -> int:
        """Size of a vocabulary whose option is null."""
        return super().default_size if self.train else SYNTHETIC_VOCAB_SIZE


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The task, under its name."""
    registry.task("translation", TranslationConfig, partial(_build, registry))


def _build(registry: Registry, config: TranslationConfig) -> Translation:
    from s2s_translation.task import Translation

    return Translation(config, registry)
