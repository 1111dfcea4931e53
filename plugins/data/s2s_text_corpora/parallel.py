"""Parallel text as a corpus: two parallel files, a TSV of two columns, or JSON lines; gzip or plain.

An unusable pair becomes a `Rejected` in its position, so that nothing is misaligned and all pairs are counted.
"""

from __future__ import annotations

__all__ = ["ParallelCorpus", "read_pairs"]

from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import Corpus, DataError, Example, Rejected
from s2s.data import (
    DROP_HINT,
    INVALID_UTF8,
    NUL,
    Invalid,
    numbered_lines,
    pair_format,
)
from s2s.io import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from s2s_text_corpora import ParallelConfig

EMPTY = Rejected("empty")
BLANK = Rejected("empty")
"""Both sides are empty, which ends a document; only its identity differs from `EMPTY`, as both count alike"""
NOT_A_PAIR = Rejected("not a pair")


class ParallelCorpus(Corpus):
    """The pairs of two parallel files, or of one file of pairs."""

    def __init__(self, config: ParallelConfig) -> None:
        self.config = config

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """Every pair, in order."""
        pairs = read_pairs(self.config.files, self.config.invalid, documents=self.config.documents)
        return _in_documents(pairs) if self.config.documents else pairs

    def files(self, split: str) -> list[Path]:
        """The file or the two files."""
        return [Path(file) for file in self.config.files]

    def settings(self) -> dict[str, Any]:
        """The treatment of invalid lines, and whether there are documents."""
        return {"invalid": self.config.invalid, **({"documents": True} if self.config.documents else {})}


def read_pairs(
    files: Sequence[Path | str], invalid: Invalid = "error", *, documents: bool = False
) -> Iterator[Example | Rejected]:
    """Every pair of one corpus, in order; documents: whether a TSV may name them in a third column."""
    paths = [Path(file) for file in files]
    if len(paths) == 2:
        return _parallel(paths[0], paths[1], invalid)
    form = pair_format(paths[0]) if len(paths) == 1 else None
    if form is None:
        named = ", ".join(map(str, paths))
        raise DataError(f"{named}: a corpus is two parallel files, or one whose name ends in .tsv or .jsonl")
    tsv = _columns_with_document if documents else _columns
    return _one_file(paths[0], {"tsv": tsv, "jsonl": _record}[form], invalid)


def _in_documents(pairs: Iterator[Example | Rejected]) -> Iterator[Example | Rejected]:
    """The pairs with the number of their document where they name none."""
    number = 0
    for one in pairs:
        number += one is BLANK
        if isinstance(one, Rejected) or one.fields.keys() & {"document", "doc"}:
            yield one
        else:
            yield replace(one, fields={**one.fields, "document": number})


def _parallel(src_path: Path, tgt_path: Path, invalid: Invalid) -> Iterator[Example | Rejected]:
    """Line n of one file with line n of the other."""
    src_lines, tgt_lines = _flat(src_path, invalid), _flat(tgt_path, invalid)
    for n_pairs, (src, tgt) in enumerate(zip_longest(src_lines, tgt_lines)):
        if src is None or tgt is None:
            longer = n_pairs + 1 + sum(1 for _ in (tgt_lines if src is None else src_lines))
            n_src, n_tgt = (n_pairs, longer) if src is None else (longer, n_pairs)
            raise _unequal(src_path, tgt_path, n_src, n_tgt)
        yield _pair(src, tgt)


def _flat(path: Path, invalid: Invalid) -> Iterator[str | Rejected]:
    return (line for _, line in numbered_lines(path, invalid))


def _pair(src: str | Rejected, tgt: str | Rejected) -> Example | Rejected:
    if isinstance(src, Rejected):
        return src
    if isinstance(tgt, Rejected):
        return tgt
    if not src or not tgt or src.isspace() or tgt.isspace():
        return EMPTY if src.strip() or tgt.strip() else BLANK
    return Example(src, tgt)


def _unequal(src_path: Path, tgt_path: Path, n_src: int, n_tgt: int) -> DataError:
    from s2s.data import first_misaligned_line  # numpy, which a search for missing files does without

    counts = f"{src_path} has {n_src:,} lines and {tgt_path} has {n_tgt:,}; they must be parallel, line by line"
    line = first_misaligned_line(src_path, tgt_path, n_src, n_tgt)
    if line is None:
        return DataError(f"{counts}. The shorter one seems to be cut off at its end")
    return DataError(f"{counts}. By their lengths they part near line {line:,}: look there")


class _Unusable(Exception):  # noqa: N818  caught in this file
    """The error in a line, and the `Rejected` that counts it if it is dropped."""

    def __init__(self, what: str, counts_as: Rejected = NOT_A_PAIR) -> None:
        super().__init__(what)
        self.counts_as = counts_as


def _one_file(path: Path, parse: Callable[[str], Example | Rejected], invalid: Invalid) -> Iterator[Example | Rejected]:
    """The pairs of a file with one pair per line."""
    for number, line in numbered_lines(path, invalid):
        if isinstance(line, Rejected):
            yield line
            continue
        try:
            pair = BLANK if not line or line.isspace() else parse(line)
        except _Unusable as error:
            if invalid == "error":
                raise DataError(f"{path}:{number}: {error}; {DROP_HINT}") from None
            pair = error.counts_as
        yield pair


def _columns(line: str) -> Example | Rejected:
    columns = line.split("\t")
    if len(columns) != 2:
        columns_given = f"{len(columns)} column{'s' if len(columns) > 1 else ''}"
        raise _Unusable(f"{columns_given}, expected 2 with one tab between them")
    return _pair(*columns)


def _columns_with_document(line: str) -> Example | Rejected:
    pair, _, document = line.rpartition("\t")
    if "\t" not in pair:
        return _columns(line)
    columns = _columns(pair)
    return replace(columns, fields={"document": document}) if isinstance(columns, Example) else columns


def _record(line: str) -> Example | Rejected:
    expected = 'expected an object such as {"src": "…", "tgt": "…"}'
    try:
        record = parse_json(line)
    except ValueError as error:
        raise _Unusable(f"not JSON ({error}), {expected}") from None
    if not isinstance(record, dict):
        raise _Unusable(f"not a JSON object, {expected}")
    for key in ("src", "tgt"):
        if not isinstance(record.get(key), str):
            raise _Unusable(f'"{key}" is {"not text" if key in record else "missing"}, {expected}')
        _check_no_escapes(key, record[key])
    pair = _pair(record.pop("src"), record.pop("tgt"))
    return replace(pair, fields=record) if isinstance(pair, Example) and record else pair


def _check_no_escapes(key: str, text: str) -> None:
    """Reject what JSON can escape but no file of lines can contain: NUL, and half of a surrogate pair."""
    if "\0" in text:
        raise _Unusable(f'"{key}" spells a NUL character (\\u0000)', NUL)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _Unusable(f'"{key}" spells half a character (\\u{ord(text[error.start]):04x})', INVALID_UTF8) from None
