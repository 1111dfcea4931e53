"""A tree out of any symbols: what a model without a constraint puts out is mended, and never thrown away."""

from __future__ import annotations

__all__ = ["mend"]

from typing import TYPE_CHECKING

from s2s_parsing.linear.actions import UNKNOWN_TAG, Action, Kind
from s2s_parsing.tree import TOP, Node, Tree, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def mend(actions: Iterable[Action], words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
    """A tree of exactly these words, as near to the actions as can be; of actions that are a tree, that tree.

    Left out are words too many, brackets without words or round unfinished ones, and ends of brackets that are not
    open. Words that are lacking are put into the innermost bracket that is open at the end; then all are closed.
    """
    mending = _Mending(words, tags)
    for action in actions:
        mending.do(action)
    while mending.n_words < len(words):
        mending.word(None)
    while mending.outer:
        mending.close()
    return Tree(TOP, tuple(mending.children))


class _Mending:
    """The innermost open bracket, and those round it."""

    def __init__(self, words: Sequence[str], tags: Sequence[str] | None) -> None:
        self.words, self.tags, self.n_words = words, tags, 0
        self.label = TOP
        self.children: list[Node] = []
        self.outer: list[tuple[str, list[Node]]] = []
        self.finished = False
        """Whether what came last is a word or a whole bracket, which another can be put round"""

    def do(self, action: Action) -> None:
        """One action, if it can be done."""
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
        """The next word of the sentence."""
        tag = self.tags[self.n_words] if self.tags else tag or UNKNOWN_TAG
        self.children.append(Word(tag, self.words[self.n_words]))
        self.n_words += 1
        self.finished = True

    def close_to(self, label: str | None) -> None:
        """End the innermost bracket of this label, and with it all inside; without a label, the innermost."""
        open_labels = [name for name, _ in self.outer[1:]] + [self.label] if self.outer else []
        if label is None and open_labels:
            self.close()
        elif label in open_labels:
            for _ in range(open_labels[::-1].index(label) + 1):
                self.close()

    def close(self) -> None:
        """End the innermost bracket; an empty one leaves nothing."""
        label, inner = self.label, self.children
        self.label, self.children = self.outer.pop()
        if inner:
            self.children.append(Tree(label, tuple(inner)))
            self.finished = True
