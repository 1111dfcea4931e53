"""Text without a source, in the symbols of another run's outputs, as a plugin: what a language model learns."""

from __future__ import annotations

__all__ = ["LanguageModelConfig", "s2s_register"]

from dataclasses import dataclass, field
from typing import Literal

from s2s import Choice, Registry, hookimpl


@dataclass(kw_only=True)
class LanguageModelConfig(Choice):
    """Sentences of one language; a model of them can be added to the scores of the run whose symbols it shares."""

    train: str | list[str] = field(default_factory=list)
    """Training text, one sentence a line: a file, or several as [news.de,books.de]; .gz is read as it is."""
    tokenizer: str = ""
    """Whose symbols: a run (its directory, its name under runs/, or last) that writes subwords, or the folder of its
    tokeniser."""
    valid: str | list[str] = field(default_factory=list)
    """Development text, in the same form; empty: none."""
    test: str | list[str] = field(default_factory=list)
    """Test text."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that is not UTF-8: stop, or drop and count it."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The task, under its name."""
    registry.task("language_model", LanguageModelConfig, "s2s_language_model.task:LanguageModel")
