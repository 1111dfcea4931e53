"""The elements of a source as a tree, each with what it needs of the target and, once it is placed, what it has."""

from __future__ import annotations

__all__ = ["Node", "tree"]

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from s2s.text.runs import AtomRun, Demand
from s2s.text.words import Atom

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.text.alignment import Alignment
    from s2s.text.annotated import AnnotatedText


@dataclass(eq=False)
class Node:
    """An element, or the whole text."""

    begin: int
    end: int
    """In the source"""
    keep: bool
    atoms: list[Atom]
    """Of the source"""
    children: list[Node] = field(default_factory=list)
    copy: tuple[int, int] | None = None
    """Of a kept one, where the target has its text; set before what depends on it is read"""
    run: AtomRun | None = None
    """Atoms of the target; None: it has none"""
    boundary: int = 0
    """Without a run, the number of atoms before it"""
    joins: bool = False
    """Whether the words that it is attached to are beside one another in the target, with it between them"""
    place: tuple[int, int] = (0, 0)
    """Characters of the target"""

    @cached_property
    def free_atoms(self) -> list[Atom]:
        """Those of the source that are translated, or copied by the model."""
        ends = [0, *(one.end for one in self.kept() if one.copy is None and one is not self)]
        begins = [-1, *(one.begin for one in self.kept() if one.copy is None and one is not self)]
        return [atom for atom in self.atoms if ends[bisect_right(begins, atom.begin) - 1] <= atom.begin]

    @cached_property
    def n_words(self) -> int:
        """Words of the source that are translated."""
        return sum(atom.is_word for atom in self.free_atoms)

    @cached_property
    def demand(self) -> Demand:
        """Enough atoms of the target for itself and for all inside it; none if it is copied to where it belongs."""
        if self.keep:
            return Demand(0, int(self.copy is not None))
        inside = [child.demand for child in self.children]
        n_words = max(int(self.n_words > 0), sum(one.n_words for one in inside))
        return Demand(n_words, max(int(bool(self.free_atoms)), n_words, sum(one.n_atoms for one in inside)))

    def kept(self) -> Iterator[Node]:
        """The outermost kept elements in it that have a text, in order; itself, if it is one."""
        if self.keep and self.atoms:
            yield self
        elif not self.keep:
            for child in self.children:
                yield from child.kept()


def tree(source: AnnotatedText, alignment: Alignment) -> tuple[Node, list[Node]]:
    """The node of the whole text, and those of the elements in their order."""
    root = Node(0, len(source.text), False, alignment.source)
    nodes: list[Node] = []
    for span, parent in zip(source.spans, source.parents, strict=True):
        node = Node(span.begin, span.end, span.keep, alignment.source_atoms(span.begin, span.end))
        (nodes[parent] if parent >= 0 else root).children.append(node)
        nodes.append(node)
    return root, nodes
