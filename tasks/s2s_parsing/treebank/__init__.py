"""Treebanks: files of bracketed trees, read, cleaned and counted."""

from __future__ import annotations

__all__ = [
    "MALFORMED",
    "NOTHING_LEFT",
    "SECTIONS",
    "Builder",
    "Cleaner",
    "EmptiedTree",
    "MalformedTree",
    "Split",
    "Unary",
    "check_overwriting",
    "cleaned_trees",
    "join_chains",
    "read_brackets",
    "read_treebank",
    "split_joined",
    "treebank_files",
]

from collections import Counter
from typing import TYPE_CHECKING

from s2s import DataError, Rejected
from s2s.data import DROP_HINT, numbered_lines
from s2s_parsing.tree import Tree
from s2s_parsing.treebank.brackets import Builder, EmptiedTree, MalformedTree, read_brackets
from s2s_parsing.treebank.cleaning import Cleaner, Unary, join_chains, split_joined
from s2s_parsing.treebank.files import SECTIONS, Split, check_overwriting, treebank_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from s2s.data import Invalid

NOTHING_LEFT = Rejected("only traces")
MALFORMED = Rejected("malformed tree")


def read_treebank(
    files: Iterable[Path], builder: Builder | None = None, invalid: Invalid = "error"
) -> Iterator[Tree | Rejected]:
    """Every tree of the files, plain or gzip; one that cannot be read is an error, or a `Rejected` in its position.

    A `Cleaner` as the builder removes what a parser does not learn; without one, trees are unchanged.
    """
    for _, tree in _placed(files, builder, invalid):
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
    files: Iterable[Path], builder: Builder | None, invalid: Invalid
) -> Iterator[tuple[Path, Tree | MalformedTree | EmptiedTree]]:
    """Every tree with its file."""
    for file in files:
        for tree in read_brackets(_lines(file, invalid), builder):
            if isinstance(tree, MalformedTree) and invalid == "error":
                raise DataError(f"{file}:{tree.line}: {tree.what}; {DROP_HINT}")
            yield file, tree


def _lines(file: Path, invalid: Invalid) -> Iterator[tuple[int, str]]:
    """Numbered lines; one that is not text makes its tree malformed, like a surplus bracket."""
    for number, line in numbered_lines(file, invalid):
        yield number, ")" if isinstance(line, Rejected) else line
