"""Replacement of unknown words, from the source positions of output tokens."""

from __future__ import annotations

__all__ = ["replace_unknown"]

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s import Task
    from s2s.decoding import Hypothesis

WORD = re.compile(r"\S+")


def replace_unknown(task: Task, src: str, hypothesis: Hypothesis, text: str) -> str:
    """The output text with each word that has an unknown token replaced by the aligned source word."""
    if task.vocab.unk not in hypothesis.tokens:
        return text
    replaced: dict[int, str] = {}
    for source, target in _unknown(task, src, hypothesis):
        word, number = _word_at(src, source), len(WORD.findall(text, 0, target[1])) - 1
        if word:
            replaced.setdefault(number, word)
    numbers = iter(range(len(text)))
    return WORD.sub(lambda word: replaced.get(next(numbers), word[0]), text)


def _unknown(task: Task, src: str, hypothesis: Hypothesis) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """For each unknown token the characters that it is aligned to, and its own."""
    assert hypothesis.source_positions is not None
    sources, targets = task.source_offsets(src), task.target_offsets(hypothesis.tokens, src)
    for token, position, target in zip(hypothesis.tokens, hypothesis.source_positions, targets, strict=True):
        source = sources[position]
        if token == task.vocab.unk and source and target:
            yield source, target


def _word_at(text: str, offset: tuple[int, int]) -> str:
    """The word of a token."""
    return next((word[0] for word in WORD.finditer(text) if word.end() > offset[0]), "")
