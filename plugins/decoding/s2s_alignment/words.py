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


def word_alignment(task: Task, src: str, found: Hypothesis) -> list[tuple[int, int]]:
    """Pairs of source and target word numbers, where some token of the target word attends most to the source word."""
    pairs = _words(task, src, found)
    return sorted({(of_src, of_tgt) for of_src, of_tgt in pairs if of_src is not None and of_tgt is not None})


def replace_unknown(task: Task, src: str, found: Hypothesis, text: str) -> str:
    """The output text with each word that has an unknown token replaced by the aligned source word."""
    if task.vocab.unk not in found.tokens:
        return text
    words = src.split()
    replaced: dict[int | None, str] = {}
    for token, (of_src, of_tgt) in zip(found.tokens, _words(task, src, found), strict=True):
        if token == task.vocab.unk and of_src is not None:
            replaced.setdefault(of_tgt, words[of_src])
    numbers = iter(range(len(text)))
    return WORD.sub(lambda word: replaced.get(next(numbers), word[0]), text)


def _words(task: Task, src: str, found: Hypothesis) -> Sequence[tuple[int | None, int | None]]:
    """For each output token, the source word that it is aligned to and its own word."""
    assert found.source_positions is not None
    of_src, of_tgt = task.source_words(src), task.target_words(found.tokens, src)
    return [(of_src[position], word) for position, word in zip(found.source_positions, of_tgt, strict=True)]
