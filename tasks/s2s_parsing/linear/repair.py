"""Builds a tree from any tokens: malformed outputs of a model without a constraint are repaired."""

from __future__ import annotations

__all__ = ["repair"]

from typing import TYPE_CHECKING

from s2s_parsing.linear.actions import UNKNOWN_TAG, Action, Kind
from s2s_parsing.tree import TOP, Node, Tree, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def repair(actions: Iterable[Action], words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
    """A tree over exactly these words that follows the actions; well-formed actions give their own tree.

    Surplus words, empty brackets, projections of unfinished brackets and closings of brackets that are not open are
    dropped. Missing words are added to the innermost bracket open at the end; then all brackets are closed.
    """
    repaired = _Repair(words, tags)
    for action in actions:
        repaired.do(action)
    while repaired.n_words < len(words):
        repaired.word(None)
    while repaired.outer:
        repaired.close()
    return Tree(TOP, tuple(repaired.children))


class _Repair:
    """The innermost open bracket, and its ancestors."""

    def __init__(self, words: Sequence[str], tags: Sequence[str] | None) -> None:
        self.words, self.tags, self.n_words = words, tags, 0
        self.label = TOP
        self.children: list[Node] = []
        self.outer: list[tuple[str, list[Node]]] = []
        self.finished = False
        """Whether the last node is a word or a complete bracket, which a projection can take as its first child"""

    def do(self, action: Action) -> None:
        """Apply one action if it is possible."""
        kind, label = action
        if kind is Kind.WORD:
            if self.n_words < len(self.words):
                self.word(label)
        elif kind is Kind.CLOSE:
            self.close_to(label)
        elif kind is Kind.OPEN or self.finished:
            inner = [self.children.pop()] if kind is Kind.PROJECT else []
            self.outer.append((self.label, self.children))
            self.label, self.children, self.finished = label or "", inner, False

    def word(self, tag: str | None) -> None:
        """Add the next word of the sentence."""
        tag = self.tags[self.n_words] if self.tags else tag or UNKNOWN_TAG
        self.children.append(Word(tag, self.words[self.n_words]))
        self.n_words += 1
        self.finished = True

    def close_to(self, label: str | None) -> None:
        """Close the innermost bracket of this label and all inside it; without a label, the innermost."""
        open_labels = [name for name, _ in self.outer[1:]] + [self.label] if self.outer else []
        if label is None and open_labels:
            self.close()
        elif label in open_labels:
            for _ in range(open_labels[::-1].index(label) + 1):
                self.close()

    def close(self) -> None:
        """Close the innermost bracket; an empty one is dropped."""
        label, inner = self.label, self.children
        self.label, self.children = self.outer.pop()
        if inner:
            self.children.append(Tree(label, tuple(inner)))
            self.finished = True
