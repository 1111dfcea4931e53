"""Negra's export format, versions 3 and 4, and TIGER XML: sentences as words and brackets that name their parents."""

from __future__ import annotations

__all__ = ["read_export", "read_tiger"]

import re
from typing import TYPE_CHECKING, NamedTuple
from xml.parsers import expat

from s2s import DataError
from s2s_parsing.tree import Word
from s2s_parsing.treebank.brackets import MalformedTree
from s2s_parsing.treebank.discontinuous import (
    Constituent,
    Discontinuity,
    DiscontinuousError,
    continuous,
    label_text,
    word_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import IO

    from s2s_parsing.tree import Tree

ROOT = "0"
NODE = re.compile(r"#(\d+)")
NONE = "--"
CHUNK = 1 << 16
MAX_NODES = 1 << 20
"""Words and brackets of a sentence"""


class _Row(NamedTuple):
    """A word, or a bracket, which has an `id`."""

    id: str
    text: str
    label: str
    function: str
    parent: str


def read_export(lines: Iterable[tuple[int, str]], rule: Discontinuity) -> Iterator[Tree | MalformedTree]:
    """Every sentence between #BOS and #EOS."""
    version, begun = 0, 0
    rows: list[Sequence[str]] = []
    for number, line in lines:
        if line.startswith("#FORMAT"):
            version = int(line.split()[-1]) if line.split()[-1].isdecimal() else 0
        elif line.startswith("#BOS"):
            if begun:
                yield MalformedTree(begun, f"no #EOS before line {number}, where another sentence begins")
            begun, rows = number, []
        elif line.startswith("#EOS"):
            if rows:
                yield _tree([_row(row, version) for row in rows], begun, rule)
            begun = 0
        elif begun and line.strip() and not line.startswith("%%"):
            rows.append(line.partition("%%")[0].split() or [line])
    if begun:
        yield MalformedTree(begun, "no #EOS before the end of the file")


def _row(columns: Sequence[str], version: int) -> _Row | None:
    """A row of a sentence; version 4 has lemmas, in a second column. None: it has too few columns."""
    has_lemmas = version == 4 or (version != 3 and len(columns) > 4 and not columns[4].isdecimal())
    rest = columns[2:] if has_lemmas else columns[1:]
    if len(rest) < 4 or not rest[3].isdecimal():
        return None
    node = NODE.fullmatch(columns[0])
    return _Row(node[1] if node else "", columns[0], rest[0], rest[2], rest[3])


def _tree(rows: Sequence[_Row | None], line: int, rule: Discontinuity) -> Tree | MalformedTree:
    """The tree of a sentence that begins on a line."""
    if None in rows:
        return MalformedTree(line, f"row {rows.index(None) + 1} of the sentence has too few columns, or no parent")
    whole = [row for row in rows if row]
    nodes = {row.id: Constituent(row.label, _function(row.function)) for row in whole if row.id}
    nodes[ROOT] = root = Constituent("")
    words: list[Word] = []
    for row in whole:
        if row.parent not in nodes:
            return MalformedTree(line, f"{row.text} is in #{row.parent}, which the sentence does not have")
        if row.id:
            nodes[row.parent].children.append(nodes[row.id])
        else:
            nodes[row.parent].children.append(len(words))
            words.append(Word(label_text(row.label), word_text(row.text)))
    return _continuous(root, words, line, rule)


def _continuous(root: Constituent, words: Sequence[Word], line: int, rule: Discontinuity) -> Tree | MalformedTree:
    try:
        return continuous(root, words, rule)
    except DiscontinuousError as error:
        return MalformedTree(line, str(error))


def _function(label: str) -> str:
    return "" if label == NONE else label_text(label).replace("-", "_")


def read_tiger(file: IO[bytes], path: Path, rule: Discontinuity) -> Iterator[Tree | MalformedTree]:
    """Every sentence of TIGER XML, streamed; raises DataError for XML that is not well-formed or declares entities."""
    sentences = _TigerSentences(path)
    while chunk := file.read(CHUNK):
        yield from sentences.read(chunk, rule)
    yield from sentences.read(b"", rule)


class _TigerSentences:
    """expat, with the sentence that is open."""

    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 0
        self.rows: list[Mapping[str, str]] = []
        """Attributes of words, and of brackets, which have `cat`"""
        self.edges: dict[str, tuple[str, str]] = {}
        """A node's parent and its function there"""
        self.done: list[tuple[int, list[Mapping[str, str]], dict[str, tuple[str, str]]]] = []
        parser = self.parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.EntityDeclHandler = self._declared

    def read(self, data: bytes, rule: Discontinuity) -> Iterator[Tree | MalformedTree]:
        """The sentences that end in the data; none: at the end of the file."""
        try:
            self.parser.Parse(data, not data)
        except expat.ExpatError as error:
            raise self._error(f"not well-formed ({expat.ErrorString(error.code)})") from None
        except (ValueError, LookupError) as error:
            raise DataError(f"{self.path}: {error}; convert it to UTF-8 with iconv") from None
        done, self.done = self.done, []
        for line, rows, edges in done:
            if rows:
                yield _tree([_tiger_row(row, edges) for row in rows], line, rule)

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "s":
            self.line, self.rows, self.edges = self.parser.CurrentLineNumber, [], {}
        elif name in ("t", "nt"):
            self.rows.append(dict(attributes, kind=name))
            if len(self.rows) > MAX_NODES:
                raise self._error(f"a sentence of more than {MAX_NODES:,} nodes")
        elif name == "edge" and self.rows:
            child = attributes.get("idref", "")
            self.edges[child] = (self.rows[-1].get("id", ""), attributes.get("label", NONE))

    def _end(self, name: str) -> None:
        if name == "s":
            self.done.append((self.line, self.rows, self.edges))

    def _declared(self, name: str, *_: object) -> None:
        raise self._error(f"declares an entity ({name}); entities are not read")

    def _error(self, what: str) -> DataError:
        return DataError(f"{self.path}:{self.parser.CurrentLineNumber}: {what}")


def _tiger_row(row: Mapping[str, str], edges: Mapping[str, tuple[str, str]]) -> _Row:
    parent, function = edges.get(row.get("id", ""), (ROOT, NONE))
    is_bracket = row["kind"] == "nt"
    label = row.get("cat", NONE) if is_bracket else row.get("pos", NONE)
    return _Row(row.get("id", "") if is_bracket else "", row.get("word", row.get("id", "")), label, function, parent)
