"""Treebanks: files of trees, read, cleaned and counted."""

from __future__ import annotations

__all__ = [
    "MALFORMED",
    "NOTHING_LEFT",
    "SECTIONS",
    "Builder",
    "Cleaner",
    "Discontinuity",
    "EmptiedTree",
    "MalformedTree",
    "Split",
    "Unary",
    "check_overwriting",
    "cleaned_trees",
    "format_of",
    "join_chains",
    "read_brackets",
    "read_treebank",
    "split_joined",
    "treebank_files",
]

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from s2s import DataError, Rejected
from s2s.data import DROP_HINT
from s2s_parsing.tree import Tree
from s2s_parsing.treebank.brackets import Builder, EmptiedTree, MalformedTree, read_brackets
from s2s_parsing.treebank.cleaning import Cleaner, Unary, join_chains, split_joined
from s2s_parsing.treebank.discontinuous import Discontinuity
from s2s_parsing.treebank.files import SECTIONS, Split, check_overwriting, treebank_files
from s2s_parsing.treebank.formats import READ, format_of, read_trees

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from s2s.data import Invalid

NOTHING_LEFT = Rejected("only traces")
N_LOOKED_AT = 1000
"""Trees of a file by which it is judged whether most are malformed"""
MALFORMED = Rejected("malformed tree")


def read_treebank(
    files: Iterable[Path],
    builder: Builder | None = None,
    invalid: Invalid = "error",
    discontinuity: Discontinuity = "split",
) -> Iterator[Tree | Rejected]:
    """Every tree of the files, in any of the formats; what cannot be read is an error, or a `Rejected` there.

    A `Cleaner` as the builder removes what a parser does not learn; without one, trees are unchanged.
    """
    for _, tree in _placed(files, builder, invalid, discontinuity):
        if isinstance(tree, Tree):
            yield tree
        else:
            yield NOTHING_LEFT if isinstance(tree, EmptiedTree) else MALFORMED


def cleaned_trees(files: Iterable[Path]) -> Iterator[Tree]:
    """Every tree of the files without what a parser does not learn; one of which nothing is left is an error."""
    for file, tree in _placed(files, Cleaner(Counter()), "error"):
        if not isinstance(tree, Tree):
            raise DataError(f"{file}:{tree.line}: the tree that ends here has only traces; remove it")
        yield tree


def _placed(
    files: Iterable[Path], builder: Builder | None, invalid: Invalid, discontinuity: Discontinuity = "split"
) -> Iterator[tuple[Path, Tree | MalformedTree | EmptiedTree]]:
    """Every tree with its file."""
    for file in files:
        for tree in read_trees(file, builder, invalid, discontinuity):
            if isinstance(tree, MalformedTree) and invalid == "error":
                raise DataError(f"{file}:{tree.line}: {tree.what}; {_advice(file, discontinuity)}")
            yield file, tree


def _advice(file: Path, discontinuity: Discontinuity) -> str:
    """What to do about a malformed tree; not to drop such trees where most are malformed."""
    trees = list(islice(read_trees(file, None, "drop", discontinuity), N_LOOKED_AT))
    n_malformed = sum(isinstance(tree, MalformedTree) for tree in trees)
    if 2 * n_malformed <= len(trees):
        return DROP_HINT
    return f"so are {n_malformed:,} of the first {len(trees):,}; {READ}"
