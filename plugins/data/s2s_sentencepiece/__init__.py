"""Subwords by sentencepiece: task.subword=bpe, unigram, char and word. Imports neither torch nor sentencepiece."""

from __future__ import annotations

__all__ = ["SentencePieceConfig", "s2s_register"]

from dataclasses import dataclass, field
from typing import Literal

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import Mark

LEAST_COVERAGE = 0.98


@dataclass(kw_only=True)
class SentencePieceConfig(Choice):
    """Tokens that sentencepiece learns by the algorithm of this name."""

    character_coverage: float = 1.0
    """Share of the characters that get a token of their own; in translation, the default is task.character_coverage."""
    byte_fallback: bool | None = field(default=None, metadata=Mark.earlier(False))
    """Write a character without a token as the bytes of its UTF-8, so that no text is unknown; 256 more tokens. null:
    if the vocabulary has 2,048 tokens or more, and by the training text one line in 2,000 has a new character."""
    invisible: Literal["drop", "keep"] = field(default="drop", metadata=Mark.earlier("keep"))
    """Invisible characters that carry no meaning, such as soft hyphens and joiners in Latin words: drop leaves them out
    of every text, as a part of the normalisation in the model's file."""
    max_lines: int = field(default=10_000_000, metadata=Mark.earlier(10_000_000))
    """Most lines that a vocabulary is learnt from. Of more, a half, a quarter, … is taken: the same ones in every
    process, evenly from all of the text. Of 10,000,000 short lines learning needs 2 GiB of memory."""
    symbols: list[str] = field(default_factory=list)
    """Texts that are one token wherever they occur, such as tags: ['<BT>']."""

    def __post_init__(self) -> None:
        if self.max_lines < 1:
            raise ConfigError(f"task.subword.max_lines={self.max_lines} must be 1 or more")
        if not LEAST_COVERAGE <= self.character_coverage <= 1:
            raise ConfigError(
                f"task.character_coverage={self.character_coverage} must lie between {LEAST_COVERAGE}, the least that "
                "sentencepiece takes, and 1"
            )


@hookimpl
def s2s_register(registry: Registry) -> None:
    for kind in ("bpe", "unigram", "char", "word"):
        registry.add("tokenizer", kind, SentencePieceConfig, "s2s_sentencepiece.kind:SentencePiece")
