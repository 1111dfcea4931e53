"""Immutable trees of any depth: no function here is recursive."""

from __future__ import annotations

__all__ = ["TOP", "Node", "Tree", "Word", "bracketed", "fold", "leaves", "map_words", "to_nltk"]

from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import nltk

TOP = "TOP"
"""Label of every tree's outermost bracket."""

T = TypeVar("T")


class Word(NamedTuple):
    """A leaf."""

    tag: str
    """Part of speech"""
    word: str


class Tree(NamedTuple):
    """A bracket."""

    label: str
    children: tuple[Node, ...]

    def __str__(self) -> str:
        return bracketed(self)


Node = Tree | Word


def fold(tree: Node, leaf: Callable[[str, str], T], bracket: Callable[[str, list[T]], T]) -> T:
    """Apply `leaf` to every word and `bracket` to every label with its children's results, bottom-up."""
    results: list[T] = []
    open_at: list[int] = []
    stack: list[Node | str] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            start = open_at.pop()
            results[start:] = [bracket(node, results[start:])]
        elif isinstance(node, Word):
            results.append(leaf(*node))
        else:
            open_at.append(len(results))
            stack.append(node.label)
            stack.extend(reversed(node.children))
    return results[0]


def bracketed(tree: Node) -> str:
    """The tree on one line, as in `(TOP (S (NP (PRP It)) (VP (VBZ works))))`."""
    parts: list[str] = []
    stack: list[Node | None] = [tree]
    while stack:
        node = stack.pop()
        if node is None:
            parts.append(")")
        elif isinstance(node, Word):
            parts.append(f" ({node.tag} {node.word})")
        else:
            parts.append(f" ({node.label}")
            stack.append(None)
            stack.extend(reversed(node.children))
    return "".join(parts)[1:]


def leaves(tree: Node) -> list[Word]:
    """The words with their tags, in order."""
    words: list[Word] = []
    stack: list[Node] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Word):
            words.append(node)
        else:
            stack.extend(reversed(node.children))
    return words


def map_words(tree: Tree, change: Callable[[str, str], Word]) -> Tree:
    """The tree with `change(tag, word)` in place of each word."""

    def leaf(tag: str, word: str) -> Node:
        return change(tag, word)

    changed = fold(tree, leaf, lambda label, children: Tree(label, tuple(children)))
    assert isinstance(changed, Tree), "a bracket stays one"
    return changed


def to_nltk(tree: Node) -> nltk.Tree:
    """The tree as an nltk.Tree, for drawing and for grammars."""
    from nltk import Tree as Nltk  # the import takes a second and is not needed for training

    return fold(tree, lambda tag, word: Nltk(tag, [word]), Nltk)
