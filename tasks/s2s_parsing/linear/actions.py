"""The actions of a linearised tree, whatever its tokens: brackets are opened and closed, words are shifted."""

from __future__ import annotations

__all__ = ["UNKNOWN_TAG", "Action", "Kind", "MalformedError", "build", "in_order", "top_down"]

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from s2s_parsing.tree import TOP, Node, Tree, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

UNKNOWN_TAG = "XX"
"""Stands for an unknown part of speech."""


class Kind(Enum):
    """The kinds of actions."""

    OPEN = "opens a bracket"
    CLOSE = "closes the innermost bracket"
    WORD = "takes the next word"
    PROJECT = "opens a bracket round what was last finished"


class Action(NamedTuple):
    """The action of one token."""

    kind: Kind
    label: str | None = None
    """Label of a bracket or part of speech of a word; None if the token has none."""


class MalformedError(Exception):
    """The tokens do not form a tree over the words."""


def top_down(tree: Tree) -> Iterator[Action]:
    """Each bracket is opened before its children and closed after them, with labels; without TOP."""
    stack: list[Node | Action] = list(reversed(tree.children))
    while stack:
        node = stack.pop()
        if isinstance(node, Action):
            yield node
        elif isinstance(node, Word):
            yield Action(Kind.WORD, node.tag)
        else:
            yield Action(Kind.OPEN, node.label)
            stack.append(Action(Kind.CLOSE, node.label))
            stack.extend(reversed(node.children))


def in_order(tree: Tree) -> Iterator[Action]:
    """Each bracket is projected after its first child (Liu and Zhang 2017) and closed after the others; without TOP."""
    stack: list[Node | Action] = list(reversed(tree.children))
    while stack:
        node = stack.pop()
        if isinstance(node, Action):
            yield node
        elif isinstance(node, Word):
            yield Action(Kind.WORD, node.tag)
        else:
            first, *others = node.children
            stack.append(Action(Kind.CLOSE, node.label))
            stack.extend(reversed(others))
            stack.append(Action(Kind.PROJECT, node.label))
            stack.append(first)


def build(actions: Iterable[Action], words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
    """The tree over these words that the actions describe; `tags` override their parts of speech."""
    brackets: list[tuple[str, list[Node]]] = []  # the open ancestors of `children`
    opened, children, n_words = TOP, list[Node](), 0
    finished = False  # whether a projection may follow
    for kind, label in actions:
        if kind is Kind.WORD:
            if n_words == len(words):
                raise MalformedError(f"more words than the {n_words} of the sentence")
            children.append(Word(tags[n_words] if tags else label or UNKNOWN_TAG, words[n_words]))
            n_words += 1
        elif kind is Kind.CLOSE:
            tree = _closed(opened, children, label, brackets)
            opened, children = brackets.pop()
            children.append(tree)
        else:
            if kind is Kind.PROJECT and not finished:
                raise MalformedError(f"nothing finished stands before the bracket ({label} …) to be its first part")
            inner = [children.pop()] if kind is Kind.PROJECT else []
            brackets.append((opened, children))
            opened, children = label or "", inner
        finished = kind in (Kind.WORD, Kind.CLOSE)
    if brackets:
        raise MalformedError(f"the bracket ({opened} …) is not closed")
    if n_words < len(words) or not words:
        raise MalformedError(f"{n_words} words, but the sentence has {len(words)}")
    return Tree(TOP, tuple(children))


def _closed(opened: str, children: list[Node], label: str | None, brackets: list[tuple[str, list[Node]]]) -> Tree:
    """The bracket that is closed here."""
    if not brackets:
        raise MalformedError("a closing bracket too many")
    if label is not None and label != opened:
        raise MalformedError(f"the bracket ({opened} …) is closed as {label}")
    if not children:
        raise MalformedError(f"the bracket ({opened}) is empty")
    return Tree(opened, tuple(children))
