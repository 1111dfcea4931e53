"""Word alignments, and replacement of unknown words, from the source positions of output tokens."""

from __future__ import annotations

__all__ = ["replace_unknown", "word_alignment"]

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Task
    from s2s.decoding import Hypothesis

WORD = re.compile(r"\S+")


def word_alignment(task: Task, src: str, hypothesis: Hypothesis) -> list[tuple[int, int]]:
    """Pairs of source and target word numbers, where some token of the target word attends most to the source word."""
    pairs = _words(task, src, hypothesis)
    return sorted(
        {(src_word, tgt_word) for src_word, tgt_word in pairs if src_word is not None and tgt_word is not None}
    )


def replace_unknown(task: Task, src: str, hypothesis: Hypothesis, text: str) -> str:
    """The output text with each word that has an unknown token replaced by the aligned source word."""
    if task.vocab.unk not in hypothesis.tokens:
        return text
    words = src.split()
    replaced: dict[int | None, str] = {}
    for token, (src_word, tgt_word) in zip(hypothesis.tokens, _words(task, src, hypothesis), strict=True):
        if token == task.vocab.unk and src_word is not None:
            replaced.setdefault(tgt_word, words[src_word])
    numbers = iter(range(len(text)))
    return WORD.sub(lambda word: replaced.get(next(numbers), word[0]), text)


def _words(task: Task, src: str, hypothesis: Hypothesis) -> Sequence[tuple[int | None, int | None]]:
    """For each output token, the source word that it is aligned to and its own word."""
    assert hypothesis.source_positions is not None
    src_words, tgt_words = task.source_words(src), task.target_words(hypothesis.tokens, src)
    return [(src_words[position], word) for position, word in zip(hypothesis.source_positions, tgt_words, strict=True)]
