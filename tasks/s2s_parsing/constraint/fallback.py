"""What stands in for a tree where none was found, such as for a sentence longer than an output may be."""

from __future__ import annotations

__all__ = ["fallback"]

from typing import TYPE_CHECKING

from s2s_parsing.linear.actions import UNKNOWN_TAG
from s2s_parsing.tree import TOP, Node, Tree, Word

if TYPE_CHECKING:
    from collections.abc import Sequence

LABEL = "S"


def fallback(words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
    """A bracket from every word but the last to the end, as English branches: `(TOP (S a (S b c)))`.

    It is a guess, not a parse: whoever takes it counts it.
    """
    *others, last = (Word(*pair) for pair in zip(tags or [UNKNOWN_TAG] * len(words), words, strict=True))
    inner: tuple[Node, ...] = (last,)
    for word in reversed(others):
        inner = (word, Tree(LABEL, inner)) if len(inner) > 1 else (word, *inner)
    return Tree(TOP, (Tree(LABEL, inner),))
