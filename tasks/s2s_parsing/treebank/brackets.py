"""Turns lines into trees: brackets as in the Penn Treebank, one tree per line or over several lines.

What cannot be read is reported with its line and does not affect other trees: the next tree begins at the next line
that begins with a bracket. (Continuation lines of a tree are indented, or begin with `)`.)
"""

from __future__ import annotations

__all__ = ["SKIPPED", "WRAPPERS", "Builder", "EmptiedTree", "MalformedTree", "Trees", "read_brackets"]

import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from s2s_parsing.tree import TOP, Node, Tree, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

WRAPPERS = frozenset({"", TOP, "ROOT", "S1", "VROOT"})
"""Labels of an outermost bracket that only wraps a tree."""

# An opening bracket with its label and, for a leaf, its word and closing bracket; a closing bracket; a bare word. Only
# ASCII blanks separate them: others, such as U+00A0, are part of a word.
SKIPPED = re.compile(r"#|\*x\*")
"""How lines between trees begin that are none: comments, and the headers of the Penn Treebank's own files"""
BLANK = r"\x20\t\n\v\f\r"
TOKEN = re.compile(rf"\([{BLANK}]*([^{BLANK}()]*)(?:[{BLANK}]+([^{BLANK}()]+)[{BLANK}]*\))?|(\))|([^{BLANK}()]+)")


class MalformedTree(NamedTuple):
    """An error found instead of a tree."""

    line: int
    what: str


class EmptiedTree(NamedTuple):
    """A tree of which the builder dropped everything."""

    line: int
    """The line on which it ends"""


class Builder(Protocol):
    """Builds the nodes of a tree as it is read; None drops a node."""

    def leaf(self, tag: str, word: str) -> Node | None:
        """A word."""

    def bracket(self, label: str, children: Sequence[Node | None]) -> Node | None:
        """A bracket with its built children."""


class Trees:
    """Builds trees unchanged."""

    def leaf(self, tag: str, word: str) -> Node:
        """A word."""
        return Word(tag, word)

    def bracket(self, label: str, children: Sequence[Node | None]) -> Node:
        """A bracket."""
        return Tree(label, tuple(children))  # type: ignore[arg-type]  # no method here returns None


def read_brackets(
    lines: Iterable[tuple[int, str]], builder: Builder | None = None
) -> Iterator[Tree | MalformedTree | EmptiedTree]:
    """Every tree of numbered lines, its root labelled TOP."""
    reader = _Reader(builder or Trees())
    for number, line in lines:
        yield from reader.read(number, line)
    yield from reader.end()


class _Fault(Exception):  # noqa: N818  caught in this file
    """An error in a line."""


class _Reader:
    """The state between two lines: the tree that is open."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.stack: list[tuple[str, list[Any]]] = []
        """Labels and children of the open brackets."""
        self.begun = 0
        """The line on which the open tree begins."""
        self.skipping = False
        """After an error, until a line begins with a bracket."""

    def read(self, number: int, line: str) -> Iterator[Tree | MalformedTree | EmptiedTree]:
        """The trees that end on this line, or the error in it."""
        if line.startswith("("):
            if self.stack:
                yield MalformedTree(self.begun, f"{self._unclosed()} before line {number}, where another tree begins")
                self.stack.clear()
            self.skipping = False
        if self.skipping or (not self.stack and SKIPPED.match(line)):
            return
        try:
            yield from [_rooted(node) or EmptiedTree(number) for node in self._nodes(number, line)]
        except _Fault as fault:
            self.stack.clear()
            self.skipping = True
            yield MalformedTree(number, str(fault))

    def end(self) -> Iterator[MalformedTree]:
        """The tree left open at the end of the file."""
        if self.stack:
            yield MalformedTree(self.begun, f"{self._unclosed()} at the end of the file")

    def _unclosed(self) -> str:
        n = len(self.stack)
        return f"{n} bracket{'s are' if n > 1 else ' is'} not closed"

    def _nodes(self, number: int, line: str) -> list[Node | None]:
        """The trees that end on the line; brackets left open stay on the stack."""
        stack, leaf, bracket = self.stack, self.builder.leaf, self.builder.bracket
        outermost: list[Any] = []
        children = stack[-1][1] if stack else outermost
        for label, word, close, atom in TOKEN.findall(line):
            if word:
                children.append(leaf(label, word))
            elif close:
                if not stack:
                    raise _Fault("a closing bracket too many")
                opened, inner = stack.pop()
                children = stack[-1][1] if stack else outermost
                if not inner:
                    raise _Fault(f"the bracket ({opened}) is empty")
                children.append(_late(opened, inner, leaf) if type(inner[0]) is str else bracket(opened, inner))
            elif atom:
                children = _place(atom, stack)
            else:
                if not stack:
                    self.begun = number
                children = []
                stack.append((label, children))
        return outermost


def _place(atom: str, stack: list[tuple[str, list[Any]]]) -> list[Any]:
    """Add a word or label that is not on its bracket's line; returns the innermost bracket's children."""
    if not stack:
        raise _Fault(f"'{atom}' stands outside of brackets")
    label, children = stack[-1]
    if children:
        raise _Fault(f"'{atom}' stands beside other parts of the bracket ({label} …)")
    if label:
        children.append(atom)
    else:
        stack[-1] = atom, children
    return children


def _late(tag: str, inner: list[Any], leaf: Any) -> Node | None:
    """A leaf whose word is on a line of its own."""
    if len(inner) > 1:
        raise _Fault(f"'{inner[0]}' stands beside other parts of the bracket ({tag} …)")
    return leaf(tag, inner[0])


def _rooted(node: Node | None) -> Tree | None:
    """The tree under a root labelled TOP, which replaces wrappers."""
    if node is None:
        return None
    if isinstance(node, Word) or node.label not in WRAPPERS:
        return Tree(TOP, (node,))
    while len(node.children) == 1 and isinstance(child := node.children[0], Tree) and child.label in WRAPPERS:
        node = child
    return Tree(TOP, node.children)
