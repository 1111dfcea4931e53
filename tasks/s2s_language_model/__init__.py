"""Language modelling, as a plugin: text without a source, in the target vocabulary of another run."""

from __future__ import annotations

__all__ = ["LanguageModelConfig", "s2s_register"]

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from s2s import Choice, Registry, hookimpl

if TYPE_CHECKING:
    from s2s_language_model.task import LanguageModel


@dataclass(kw_only=True)
class LanguageModelConfig(Choice):
    """Sentences of one language; the model can be fused with the run whose vocabulary it shares."""

    train: Any = None
    """Training text, one sentence a line: a file, or several as [news.de,books.de] or {news: {files: [news.de],
    weight: 2}, …}; .gz is read as it is. {corpus: NAME, …}: a corpus of a plugin."""
    tokenizer: str = ""
    """Source of the vocabulary: a run (its directory, its name under runs/, or last) with subwords as targets, or the
    folder of its tokeniser."""
    subword: Any = field(default="bpe", metadata={"names": "tokenizer"})
    """How the tokeniser's files are read: task.subword of that run; bpe also reads files of unigram."""
    valid: Any = None
    """Development text, in the same forms; null: none."""
    test: Any = None
    """Test text, in the same forms."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that is not UTF-8: stop, or drop and count it."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The task, under its name."""
    registry.task("language_model", LanguageModelConfig, partial(_build, registry))


def _build(registry: Registry, config: LanguageModelConfig) -> LanguageModel:
    from s2s_language_model.task import LanguageModel  # imports sentencepiece

    return LanguageModel(config, registry)
