"""Removes from trees what a parser does not learn: traces, function tags, unary chains."""

from __future__ import annotations

__all__ = ["JOINED", "TRACE", "Cleaner", "Unary", "join_chains", "split_joined"]

import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

from s2s_parsing.tree import Node, Tree, Word, fold
from s2s_parsing.treebank.brackets import WRAPPERS
from s2s_parsing.treebank.discontinuous import PART

if TYPE_CHECKING:
    from collections.abc import Sequence

TRACE = "-NONE-"
JOINED = "+"
"""Separates the labels of a chain joined into one bracket."""
NAME = re.compile(r"(-[^-=|]+-|.)?[^-=|]*")
"""A label up to the first mark that is not part of its name, as the first one in -LRB- is. After the mark come function
tags, indices, and the second of two labels between which the annotators could not decide, as in ADVP|PRT."""

Unary = Literal["keep", "same", "join"]
"""Chains of brackets that hold one bracket each: keep them; one bracket for several of the same label, as in
`(NP (NP …))`; or one bracket for every chain, as in `(S+VP …)`, which `split_joined` undoes."""


class Cleaner:
    """Builds cleaned trees, and counts what is removed."""

    def __init__(
        self, counts: Counter[str], *, traces: bool = False, functions: bool = False, unary: Unary = "keep"
    ) -> None:
        """`traces`, `functions`: keep them."""
        self.counts, self.traces, self.functions, self.unary = counts, traces, functions, unary
        self.plain: dict[str, str] = {}
        """Cache: label without function tags by label."""

    def leaf(self, tag: str, word: str) -> Node | None:
        """The word, unless it is a trace. Parts of speech are kept whole, since they have no function tags."""
        if tag == TRACE and not self.traces:
            self.counts["traces removed"] += 1
            return None
        return Word(tag, word)

    def bracket(self, label: str, children: Sequence[Node | None]) -> Node | None:
        """The bracket with its remaining children; None if there are none."""
        if None in children:
            children = [child for child in children if child is not None]
            if not children:
                self.counts["brackets emptied and removed"] += 1
                return None
        if not self.functions:
            label = self._without_functions(label)
        if label.endswith(PART) and len(label) > 1:
            self.counts["parts of discontinuous brackets"] += 1
        if self.unary != "keep" and len(children) == 1:
            return self._chain(label, children[0])  # type: ignore[arg-type]  # None was filtered out
        return Tree(label, tuple(children))  # type: ignore[arg-type]

    def clean(self, tree: Tree) -> Node | None:
        """Clean a tree that is already built."""
        return fold(tree, self.leaf, self.bracket)

    def _without_functions(self, label: str) -> str:
        plain = self.plain.get(label)
        if plain is None:
            plain = self.plain[label] = _name(label)
        if plain != label:
            self.counts["function tags removed"] += 1
        return plain

    def _chain(self, label: str, child: Node) -> Node:
        """A bracket with a single child."""
        if isinstance(child, Word) or label in WRAPPERS or child.label in WRAPPERS:
            return Tree(label, (child,))
        if self.unary == "join":
            self.counts["brackets joined with the one above"] += 1
            return Tree(f"{label}{JOINED}{child.label}", child.children)
        if label == child.label:
            self.counts["brackets removed under one of the same label"] += 1
            return child
        return Tree(label, (child,))


def _name(label: str) -> str:
    """The label without function tags and indices."""
    return re.match(NAME, label)[0]  # type: ignore[index]  # it matches even the empty string


def join_chains(tree: Tree) -> Tree:
    """The tree with one bracket for every chain of them, under a label such as S+VP."""
    joined = Cleaner(Counter(), traces=True, functions=True, unary="join").clean(tree)
    assert isinstance(joined, Tree), "nothing was left out"
    return joined


def split_joined(tree: Tree) -> Tree:
    """The inverse of `join_chains`."""
    split = fold(tree, Word, _split)
    assert isinstance(split, Tree), "a bracket stays one"
    return split


def _split(label: str, children: list[Node]) -> Node:
    *above, last = label.split(JOINED)
    tree = Tree(last, tuple(children))
    for name in reversed(above):
        tree = Tree(name, (tree,))
    return tree
