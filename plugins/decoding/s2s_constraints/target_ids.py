"""The tokens that spell a text within an output."""

from __future__ import annotations

__all__ = ["target_ids"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Example, Task


def target_ids(task: Task, examples: Sequence[Example]) -> list[list[int]]:
    """The target tokens of each example, without those with which every output for it starts."""
    pairs = zip(task.encode(examples), examples, strict=True)
    return [_without_start(pair.tgt, task.vocab.started(task.forced_tokens(one)), task) for pair, one in pairs]


def _without_start(ids: list[int], start: Sequence[int], task: Task) -> list[int]:
    """The ids behind all of the starting tokens, or behind all but the first of the vocab's, which targets lack."""
    for first in range(len(task.vocab.starting_tokens) + 1):
        codes = list(start[first:])
        if codes and ids[: len(codes)] == codes:
            return ids[len(codes) :]
    return ids
