"""From source symbols that output symbols look at to words: alignments, and words that are copied."""

from __future__ import annotations

__all__ = ["replace_unknown", "word_alignment"]

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.decoding import Hypothesis
    from s2s.task import Task

WORD = re.compile(r"\S+")


def word_alignment(task: Task, src: str, found: Hypothesis) -> list[tuple[int, int]]:
    """Source and target words, by number, of which some symbol of the second looks at one of the first most."""
    pairs = _words(task, src, found)
    return sorted({(of_src, of_tgt) for of_src, of_tgt in pairs if of_src is not None and of_tgt is not None})


def replace_unknown(task: Task, src: str, found: Hypothesis, text: str) -> str:
    """The output text with the aligned source word for each word in which a symbol is unknown."""
    if task.vocab.unk not in found.tokens:
        return text
    words = src.split()
    taken: dict[int | None, str] = {}
    for symbol, (of_src, of_tgt) in zip(found.tokens, _words(task, src, found), strict=True):
        if symbol == task.vocab.unk and of_src is not None:
            taken.setdefault(of_tgt, words[of_src])
    numbers = iter(range(len(text)))
    return WORD.sub(lambda word: taken.get(next(numbers), word[0]), text)


def _words(task: Task, src: str, found: Hypothesis) -> Sequence[tuple[int | None, int | None]]:
    """Of each output symbol, the word of the source symbol that it looks at and its own."""
    assert found.sources is not None
    of_src, of_tgt = task.source_words(src), task.target_words(found.tokens, src)
    return [(of_src[place], word) for place, word in zip(found.sources, of_tgt, strict=True)]
