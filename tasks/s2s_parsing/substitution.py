"""`python -m s2s_parsing.substitution TREEBANK … -o OUTPUT`: more trees, from constituents that change places.

Structured data augmentation for few trees (Shi et al., 2020; SUB2, Shi et al., 2021): in a copy of a tree, constituents
are replaced by others of the treebank that have the same label, below the same label, and begin with the same part of
speech, so that most verbs keep their forms. The result is often not a sensible sentence, but its brackets are right:
it is meant for training together with the treebank, with a weight.
"""

from __future__ import annotations

__all__ = ["Constituent", "Pool", "constituents", "main", "substituted"]

import argparse
import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from s2s import ConfigError
from s2s.cli import guard
from s2s.io import write_lines
from s2s_parsing.tree import TOP, Tree, leaves
from s2s_parsing.treebank import check_overwriting, cleaned_trees, treebank_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Kind = tuple[str, str, str]
"""Label of a constituent, that of the bracket around it, and the part of speech of its first word"""
Pool = dict[Kind, list[Tree]]
"""The constituents of a treebank, each as often as it occurs"""


class Constituent(NamedTuple):
    """A bracket in its tree."""

    path: tuple[int, ...]
    """Index of the child to take at each bracket, starting at the outermost"""
    parent: str
    """Label of the bracket around it"""
    tree: Tree

    @property
    def kind(self) -> Kind:
        """Constituents of the same kind may replace each other."""
        return self.tree.label, self.parent, leaves(self.tree)[0].tag


def constituents(tree: Tree) -> list[Constituent]:
    """All brackets over some but not all of the words, in the order in which they begin, outer ones first."""
    path: tuple[int, ...] = ()
    parent = TOP
    while len(tree.children) == 1 and isinstance(tree.children[0], Tree):
        path, parent, tree = (*path, 0), tree.label, tree.children[0]
    parts: list[Constituent] = []
    stack = [Constituent(path, parent, tree)]
    while stack:
        here = stack.pop()
        children = [
            Constituent((*here.path, i), here.tree.label, child)
            for i, child in enumerate(here.tree.children)
            if isinstance(child, Tree)
        ]
        parts.append(here)
        stack.extend(reversed(children))
    return parts[1:]


def pool_of(trees: Iterable[Tree]) -> Pool:
    """The constituents of a treebank."""
    pool: Pool = defaultdict(list)
    for tree in trees:
        for constituent in constituents(tree):
            pool[constituent.kind].append(constituent.tree)
    return pool


def substituted(tree: Tree, pool: Pool, n: int, longest: int, draw: random.Random) -> Tree:
    """`tree` with up to `n` constituents, drawn one after the other, replaced by others of their kind in the pool.

    A constituent whose replacement would make the sentence longer than `longest` words stays.
    """
    for _ in range(n):
        candidates = constituents(tree)
        if not candidates:
            return tree
        old = draw.choice(candidates)
        new = draw.choice(pool[old.kind])
        if len(leaves(tree)) - len(leaves(old.tree)) + len(leaves(new)) <= longest:
            tree = _replaced(tree, old.path, new)
    return tree


def _replaced(tree: Tree, path: Sequence[int], new: Tree) -> Tree:
    """`tree` with `new` at the end of `path`."""
    around: list[tuple[Tree, int]] = []
    for i in path:
        around.append((tree, i))
        child = tree.children[i]
        assert isinstance(child, Tree), "a path leads through brackets"
        tree = child
    for bracket, i in reversed(around):
        children = bracket.children
        new = Tree(bracket.label, (*children[:i], new, *children[i + 1 :]))
    return new


def augmented(trees: Sequence[Tree], options: argparse.Namespace) -> Iterator[Tree]:
    """Up to `options.copies` copies of each tree, those that differ from it, in the order of the trees."""
    pool = pool_of(trees)
    for copy in range(options.copies):
        for i, tree in enumerate(trees):
            # One generator per tree, so that its random draws do not depend on the trees before it.
            draw = random.Random(f"{options.seed} {copy} {i}")
            changed = substituted(tree, pool, options.constituents, options.longest, draw)
            if changed != tree:
                yield changed


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m s2s_parsing.substitution",
        description="Copies of a treebank's trees in which constituents are replaced by others of the same label",
    )
    parser.add_argument("treebank", type=Path, nargs="+", help="files of trees, plain or .gz")
    parser.add_argument("-o", "--output", type=Path, required=True, help="treebank to write; .gz is compressed")
    parser.add_argument("--copies", type=int, default=1, help="copies of each tree (1)")
    parser.add_argument("--constituents", type=int, default=2, help="most constituents replaced in a copy (2)")
    parser.add_argument("--longest", type=int, default=100, help="most words of a sentence (100)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the replacements (1)")
    options = parser.parse_args(arguments)
    return guard(parser.prog, lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    for name in ("copies", "constituents", "longest"):
        if getattr(options, name) < 1:
            raise ConfigError(f"--{name} {getattr(options, name)}: give a positive number")
    files = [file for path in options.treebank for file in treebank_files(path)]
    check_overwriting(options.output, files)
    trees = list(cleaned_trees(files))
    n = write_lines(options.output, (str(tree) for tree in augmented(trees, options)))
    print(f"{options.output}: {n:,} trees from {len(trees):,}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
