"""Treebanks: files of bracketed trees, read, cleaned and counted."""

from __future__ import annotations

__all__ = [
    "MALFORMED",
    "NOTHING_LEFT",
    "SECTIONS",
    "Builder",
    "Cleaner",
    "MalformedTree",
    "Split",
    "Unary",
    "join_chains",
    "read_brackets",
    "read_treebank",
    "split_joined",
    "treebank_files",
]

from typing import TYPE_CHECKING

from s2s import DataError, Rejected
from s2s.data import DROP_HINT, numbered_lines
from s2s_parsing.treebank.brackets import Builder, MalformedTree, read_brackets
from s2s_parsing.treebank.cleaning import Cleaner, Unary, join_chains, split_joined
from s2s_parsing.treebank.files import SECTIONS, Split, treebank_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from s2s.data import Invalid
    from s2s_parsing.tree import Tree

NOTHING_LEFT = Rejected("only traces")
MALFORMED = Rejected("malformed tree")


def read_treebank(
    files: Iterable[Path], builder: Builder | None = None, invalid: Invalid = "error"
) -> Iterator[Tree | Rejected]:
    """Every tree of the files, plain or gzip; one that cannot be read is an error, or a `Rejected` in its position.

    A `Cleaner` as the builder removes what a parser does not learn; without one, trees are unchanged.
    """
    for file in files:
        for tree in read_brackets(_lines(file, invalid), builder):
            if isinstance(tree, MalformedTree):
                if invalid == "error":
                    raise DataError(f"{file}:{tree.line}: {tree.what}; {DROP_HINT}")
                yield MALFORMED
            else:
                yield NOTHING_LEFT if tree is None else tree


def _lines(file: Path, invalid: Invalid) -> Iterator[tuple[int, str]]:
    """Numbered lines; one that is not text makes its tree malformed, like a surplus bracket."""
    for number, line in numbered_lines(file, invalid):
        yield number, ")" if isinstance(line, Rejected) else line
