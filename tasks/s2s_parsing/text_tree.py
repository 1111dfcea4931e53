"""Trees drawn in a terminal: upright if there is room, otherwise sideways."""

from __future__ import annotations

__all__ = ["pretty", "shown"]

import shutil
import unicodedata
from typing import TYPE_CHECKING

from s2s_parsing.tree import TOP, Tree, Word, leaves, to_nltk
from s2s_parsing.treebank import read_brackets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s_parsing.tree import Node

COLUMNS = 100
"""Width if that of the terminal is unknown, as for a file"""
DEEPEST = 40
"""Number of levels from which a tree is easier to read sideways"""


def pretty(line: str) -> str:
    """The tree of a line of brackets, on several lines."""
    tree = shown(line)
    upright = _upright(tree, shutil.get_terminal_size((COLUMNS, 0)).columns)
    return f"{upright or _sideways(tree)}\n"


def shown(line: str) -> Tree:
    """The tree of a line of brackets, without its root TOP."""
    (tree,) = read_brackets([(1, line)])
    assert isinstance(tree, Tree), tree
    first, *others = tree.children
    return tree if others or tree.label != TOP or isinstance(first, Word) else first


def _upright(tree: Tree, columns: int) -> str:
    """As nltk draws it; empty if it is too wide or deep to read, or if a character is not one column wide."""
    words = [leaf.word for leaf in leaves(tree)]
    if sum(len(word) + 1 for word in words) > columns or _depth(tree) > DEEPEST:
        return ""
    if any(unicodedata.east_asian_width(sign) in "WF" or unicodedata.combining(sign) for sign in "".join(words)):
        return ""
    from nltk.tree.prettyprinter import TreePrettyPrinter  # takes a second, not needed for training

    lines = [row.rstrip() for row in TreePrettyPrinter(to_nltk(tree)).text(unicodelines=True).splitlines()]
    return "\n".join(row for row in lines if row) if max(map(len, lines)) <= columns else ""


def _depth(tree: Tree) -> int:
    """Number of nested brackets, including the outermost."""
    deepest = 0
    stack: list[tuple[Node, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, Tree):
            deepest = max(deepest, depth)
            stack.extend((child, depth + 1) for child in node.children)
    return deepest


def _sideways(tree: Tree) -> str:
    return "\n".join(_branches(tree))


def _branches(tree: Tree) -> Iterator[str]:
    """A line for each bracket and each word, with what hangs below a bracket indented."""
    stack: list[tuple[Node, str, str]] = [(tree, "", "")]  # with the text before it, and before what is below it
    while stack:
        node, before, below = stack.pop()
        if isinstance(node, Word):
            yield f"{before}{node.tag} {node.word}"
            continue
        yield f"{before}{node.label}"
        *others, last = node.children
        stack.append((last, f"{below}└─ ", f"{below}   "))
        stack.extend((child, f"{below}├─ ", f"{below}│  ") for child in reversed(others))
