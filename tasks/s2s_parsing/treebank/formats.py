"""The format of a treebank's file, by its content, and its trees."""

from __future__ import annotations

__all__ = ["READ", "Lines", "format_of", "read_trees"]

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from s2s import DataError, Rejected
from s2s.data import numbered_lines, open_bytes
from s2s_parsing.tree import Tree, fold
from s2s_parsing.treebank.brackets import SKIPPED, EmptiedTree, MalformedTree, read_brackets
from s2s_parsing.treebank.discbracket import read_discbracket
from s2s_parsing.treebank.export import read_export, read_tiger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from s2s.data import Invalid
    from s2s_parsing.treebank.brackets import Builder
    from s2s_parsing.treebank.discontinuous import Discontinuity

N_LOOKED_AT = 200
"""Lines by which a format is known"""
XML = re.compile(r"\s*<(?:\?xml|!DOCTYPE|corpus|subcorpus|body|s)\b")
EXPORT = re.compile(r"#(?:FORMAT|BOS|BOT)\b")
LEAF = re.compile(r"\([^\s()]+\s+([^\s()]+)\)")
DEPENDENCIES = re.compile(r"\d+(?:-\d+)?\t(?:[^\t]*\t){6,8}[^\t]*$")
READ = "brackets, discbracket, Negra export and TIGER XML are read"


class Lines(NamedTuple):
    """What the first lines of a file show."""

    format: str
    """brackets, discbracket, export or tiger"""
    skips: bool
    """Whether comments or headers are among them"""


def format_of(path: Path) -> Lines:
    """The format of a file; raises DataError for one that is known, and has no constituents."""
    with open_bytes(path, text=False) as file:
        start = file.read(1 << 12).replace(b"\0", b"").decode("latin-1").lstrip("ÿþï»¿\n ")
    if XML.match(start):
        if "<alpino_ds" in start or "<PAULA" in start or "<TEI" in start:
            raise DataError(f"{path}: is XML of another kind than TIGER's; {READ}; disco-dop converts others")
        return Lines("tiger", skips=False)
    lines = [line for _, line in islice(numbered_lines(path, "drop"), N_LOOKED_AT) if isinstance(line, str)]
    for line in lines:
        if EXPORT.match(line):
            return Lines("export", skips=False)
        if DEPENDENCIES.match(line):
            raise DataError(f"{path}: has dependencies (CoNLL), and no constituents; {READ}")
        if line.startswith("("):
            break
    first = next((line for line in lines if line.startswith("(") and LEAF.search(line)), "")
    form = "discbracket" if _has_numbers(first) else "brackets"
    return Lines(form, skips=any(SKIPPED.match(line) for line in lines))


def _has_numbers(tree: str) -> bool:
    """Whether all leaves of a tree are numbered, as in 0=is, or are numbers of words behind a tab."""
    leaves = LEAF.findall(tree)
    is_older = "\t" in tree
    return bool(leaves) and all(leaf.isdecimal() if is_older else re.match(r"\d+=", leaf) for leaf in leaves)


def read_trees(
    path: Path, builder: Builder | None, invalid: Invalid, rule: Discontinuity
) -> Iterator[Tree | MalformedTree | EmptiedTree]:
    """Every tree of a file, or what is wrong with it."""
    form = format_of(path).format
    if form == "brackets":
        yield from read_brackets(_text_lines(path, invalid), builder)
        return
    if form == "tiger":
        with open_bytes(path, text=False) as file:
            yield from (_built(tree, builder) for tree in read_tiger(file, path, rule))
        return
    read = read_export if form == "export" else read_discbracket
    yield from (_built(tree, builder) for tree in read(_text_lines(path, invalid), rule))


def _built(tree: Tree | MalformedTree, builder: Builder | None) -> Tree | MalformedTree | EmptiedTree:
    if isinstance(tree, MalformedTree) or builder is None:
        return tree
    built = fold(tree, builder.leaf, builder.bracket)
    return built if isinstance(built, Tree) else EmptiedTree(0)


def _text_lines(file: Path, invalid: Invalid) -> Iterable[tuple[int, str]]:
    """Numbered lines; one that is not text makes its tree malformed, like a surplus bracket."""
    return ((n, ")" if isinstance(line, Rejected) else line) for n, line in numbered_lines(file, invalid))
