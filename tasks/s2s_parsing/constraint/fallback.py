"""The tree for a sentence for which the search found none, such as one beyond the length limit."""

from __future__ import annotations

__all__ = ["fallback"]

from typing import TYPE_CHECKING

from s2s_parsing.linear.actions import UNKNOWN_TAG
from s2s_parsing.tree import TOP, Node, Tree, Word

if TYPE_CHECKING:
    from collections.abc import Sequence

LABEL = "S"


def fallback(words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
    """A right-branching tree, as English mostly branches: `(TOP (S a (S b c)))`; callers count its uses."""
    *others, last = (Word(*pair) for pair in zip(tags or [UNKNOWN_TAG] * len(words), words, strict=True))
    inner: tuple[Node, ...] = (last,)
    for word in reversed(others):
        inner = (word, Tree(LABEL, inner)) if len(inner) > 1 else (word, *inner)
    return Tree(TOP, (Tree(LABEL, inner),))
