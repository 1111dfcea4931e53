"""Subwords by sentencepiece: task.subword=bpe and unigram. Imports neither torch nor sentencepiece."""

from __future__ import annotations

__all__ = ["s2s_register"]

from s2s import Choice, Registry, hookimpl


@hookimpl
def s2s_register(registry: Registry) -> None:
    for kind in ("bpe", "unigram"):
        registry.add("tokenizer", kind, Choice, "s2s_sentencepiece.subwords:SentencePiece")
