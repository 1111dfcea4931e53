"""Files to aligned pairs: two parallel files, a TSV of two columns, or JSONL; gzip or plain.

A pair keeps its place: what cannot be used is yielded as a `Rejected`, so nothing moves and all is counted.
"""

from __future__ import annotations

__all__ = ["CorpusFiles", "Line", "parse_corpora", "read_lines", "read_pairs"]

import json
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.data.files import CorpusFiles, kind, parse_corpora
from s2s.data.misalignment import first_misaligned_line
from s2s.data.text import DROP, INVALID_UTF8, NUL, Invalid, Line, blocks, numbered_lines, read_lines
from s2s.errors import DataError
from s2s.task import Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

EMPTY = Rejected("empty")
NOT_A_PAIR = Rejected("not a pair")


def read_pairs(files: Sequence[Path | str], invalid: Invalid = "error") -> Iterator[Example | Rejected]:
    """Every pair of one corpus, in order."""
    paths = [Path(file) for file in files]
    if len(paths) == 2:
        return _parallel(paths[0], paths[1], invalid)
    held = kind(paths[0]) if len(paths) == 1 else None
    if held is None:
        named = ", ".join(map(str, paths))
        raise DataError(f"{named}: a corpus is two parallel files, or one whose name ends in .tsv or .jsonl")
    return _one_file(paths[0], {"tsv": _columns, "jsonl": _record}[held], invalid)


def _parallel(src_path: Path, tgt_path: Path, invalid: Invalid) -> Iterator[Example | Rejected]:
    """Line n of one file with line n of the other."""
    src_lines, tgt_lines = _flat(src_path, invalid), _flat(tgt_path, invalid)
    for n_pairs, (src, tgt) in enumerate(zip_longest(src_lines, tgt_lines)):
        if src is None or tgt is None:
            longer = n_pairs + 1 + sum(1 for _ in (tgt_lines if src is None else src_lines))
            n_src, n_tgt = (n_pairs, longer) if src is None else (longer, n_pairs)
            raise _unequal(src_path, tgt_path, n_src, n_tgt)
        yield _pair(src, tgt)


def _flat(path: Path, invalid: Invalid) -> Iterator[Line]:
    for block in blocks(path, invalid):
        yield from block


def _pair(src: Line, tgt: Line) -> Example | Rejected:
    if isinstance(src, Rejected):
        return src
    if isinstance(tgt, Rejected):
        return tgt
    if not src or not tgt or src.isspace() or tgt.isspace():
        return EMPTY
    return Example(src, tgt)


def _unequal(src_path: Path, tgt_path: Path, n_src: int, n_tgt: int) -> DataError:
    counts = f"{src_path} has {n_src:,} lines and {tgt_path} has {n_tgt:,}; they must be parallel, line by line"
    place = first_misaligned_line(src_path, tgt_path, n_src, n_tgt)
    if place is None:
        return DataError(f"{counts}. The shorter one seems to be cut off at its end")
    return DataError(f"{counts}. By their lengths they part near line {place:,}: look there")


class _Unusable(Exception):  # noqa: N818  caught in this file
    """What is wrong with a line, and as what it counts when it is dropped."""

    def __init__(self, what: str, counts_as: Rejected = NOT_A_PAIR) -> None:
        super().__init__(what)
        self.counts_as = counts_as


def _one_file(path: Path, parse: Callable[[str], Example | Rejected], invalid: Invalid) -> Iterator[Example | Rejected]:
    """One pair a line."""
    for number, line in numbered_lines(path, invalid):
        if isinstance(line, Rejected):
            yield line
            continue
        try:
            pair = EMPTY if not line or line.isspace() else parse(line)
        except _Unusable as error:
            if invalid == "error":
                raise DataError(f"{path}:{number}: {error}; {DROP}") from None
            pair = error.counts_as
        yield pair


def _columns(line: str) -> Example | Rejected:
    columns = line.split("\t")
    if len(columns) != 2:
        columns_given = f"{len(columns)} column{'s' if len(columns) > 1 else ''}"
        raise _Unusable(f"{columns_given}, expected 2 with one tab between them")
    return _pair(*columns)


def _record(line: str) -> Example | Rejected:
    expected = 'expected an object such as {"src": "…", "tgt": "…"}'
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _Unusable(f"not JSON ({error}), {expected}") from None
    if not isinstance(record, dict):
        raise _Unusable(f"not a JSON object, {expected}")
    for key in ("src", "tgt"):
        if not isinstance(record.get(key), str):
            raise _Unusable(f'"{key}" is {"not text" if key in record else "missing"}, {expected}')
        _refuse_escapes(key, record[key])
    return _pair(record["src"], record["tgt"])


def _refuse_escapes(key: str, text: str) -> None:
    """JSON can spell what no file of lines can hold: NUL, and half of a surrogate pair."""
    if "\0" in text:
        raise _Unusable(f'"{key}" spells a NUL character (\\u0000)', NUL)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _Unusable(f'"{key}" spells half a character (\\u{ord(text[error.start]):04x})', INVALID_UTF8) from None
