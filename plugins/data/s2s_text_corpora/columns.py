"""Which two columns, or keys, of a table are source and target, and whether its first row is a header."""

from __future__ import annotations

__all__ = ["choose", "is_header", "texts_only"]

import re
from typing import TYPE_CHECKING

from s2s import DataError
from s2s_text_corpora.languages import is_language, language_of, matching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s_text_corpora.pair_file import Reading

SOURCES = {"source", "src", "input", "original", "msgid", "prompt", "question", "article"}
TARGETS = {"target", "tgt", "trg", "output", "translation", "msgstr", "completion", "answer", "summary", "highlights"}
"""Names of columns, without words of `KINDS`"""
KINDS = {"text", "sentence", "segment", "string", "phrase", "term", "lang", "language", "value", "side"}
OTHERS = {"reference", "ref", "hypothesis", "id", "score", "document", "doc", "position", "domain", "context", "notes"}
SEPARATORS = re.compile(r"[\s._:()\[\]/-]+")
NUMBER_OR_ADDRESS = re.compile(r"[-+]?[\d.,]+(?:e[-+]?\d+)?%?|https?://\S+|")
LONGER = 6
"""Mean characters of what follows under the code of a language, so that a dictionary may begin with such a word"""


def choose(names: Sequence[str], reading: Reading, place: str) -> tuple[str, str]:
    """The names of source and target; raises DataError that lists the names where none of this decides.

    In this order: task.columns, the languages of the task, names such as source and target, and the only two.
    """
    if reading.columns:
        src, tgt = (_named(column, names, place) for column in reading.columns)
        return src, tgt
    if all(reading.languages):
        found = [matching(language, names) for language in reading.languages]
        if found[0] and found[1] and found[0] != found[1]:
            return found[0], found[1]
    roles = [
        [name for name in names if _words(name) - KINDS and _words(name) - KINDS <= those]
        for those in (SOURCES, TARGETS)
    ]
    if len(roles[0]) == len(roles[1]) == 1:
        return roles[0][0], roles[1][0]
    if len(names) == 2 and not any(_is_other_language(name, reading) for name in names):
        return names[0], names[1]
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    raise DataError(f"{place}: which of {listed} are source and target? Say task.columns=[SOURCE,TARGET]")


def _is_other_language(name: str, reading: Reading) -> bool:
    """Whether a name is a language, but none of the task's, if it has both."""
    is_other = not any(matching(language, [name]) for language in reading.languages)
    return all(reading.languages) and is_other and is_language(name.rpartition(".")[2].lower())


def _named(column: str, names: Sequence[str], place: str) -> str:
    """The name that an item of task.columns means: itself, a number from 1, or a language."""
    if column in names:
        return column
    if column.isdecimal() and 1 <= int(column) <= len(names):
        return names[int(column) - 1]
    if found := matching(column, names):
        return found
    raise DataError(f"{place}: task.columns names {column}, but there are {', '.join(names[:12])}")


def is_header(first: Sequence[str], others: Sequence[Sequence[str]], reading: Reading) -> bool:
    """Whether the first row of a table has the names of its columns, and not a pair.

    It has if task.columns names one of them, if one names a source and another a target, or if all are words that name
    columns; codes of languages only where the rows below are longer, since a dictionary may well begin with two.
    """
    cells = [cell.strip().strip('"') for cell in first]
    if any(column in cells and not column.isdecimal() for column in reading.columns):
        return True
    words = [_words(cell) for cell in cells if cell]
    if len(words) < 2 or len({*cells}) < len(cells):
        return False
    if all(any(cell & roles and cell <= roles | KINDS for cell in words) for roles in (SOURCES, TARGETS)):
        return True
    known = SOURCES | TARGETS | KINDS | OTHERS
    if not all(word in known or is_language(word) for cell in words for word in cell):
        return False
    if any(cell & known for cell in words) or len({language_of(cell) for cell in cells} - {""}) == len(cells):
        return True
    lengths = [len(cell) for row in others for cell in row]
    return sum(lengths) >= LONGER * max(len(lengths), 1)


def _words(cell: str) -> set[str]:
    """The words of a name without numbers: "Source_Text 1" -> source, text."""
    return {word for word in SEPARATORS.split(cell.strip().lower().replace("_", " ")) if word and not word.isdecimal()}


def texts_only(rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns of rows that are not only numbers and addresses, or all where fewer than two are left."""
    n = len(rows[0])
    left = [i for i in range(n) if not all(NUMBER_OR_ADDRESS.fullmatch(row[i].strip()) for row in rows)]
    return left if len(left) >= 2 else list(range(n))
