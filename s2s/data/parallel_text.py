"""Reads two parallel files: line n of one with line n of the other."""

from __future__ import annotations

__all__ = ["parallel_pairs"]

from itertools import count
from typing import TYPE_CHECKING, Any, cast

from s2s.data.columns import PairReader, TextColumns
from s2s.data.text import Invalid, Line, LineReader
from s2s.errors import DataError
from s2s.task import Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from s2s.data.columns import Wanted

    AsPair = Callable[[Any, Any], Example | Rejected]  # of two lines


def parallel_pairs(src_path: Path, tgt_path: Path, invalid: Invalid, as_pair: AsPair) -> Iterator[Example | Rejected]:
    """The pairs of two files, in order; raises DataError if one has more lines, saying where they seem to part.

    as_pair: a pair of two lines, of which any may be blank or no text.
    """

    def columns(n: int, wanted: Wanted) -> Iterator[TextColumns | None]:
        sources, targets = LineReader(src_path, invalid), LineReader(tgt_path, invalid)
        for number in count():
            if wanted(number):
                src, tgt = sources.take(n), targets.take(n)
                n_src, n_tgt = len(src), len(tgt)
            else:
                n_src, n_tgt = sources.skip(n), targets.skip(n)
            if n_src != n_tgt:
                before = n * number
                raise _unequal(src_path, tgt_path, before + n_src + sources.skip(), before + n_tgt + targets.skip())
            if not n_src:
                return
            yield _paired(src, tgt, as_pair) if wanted(number) else None

    return PairReader(columns)


def _paired(src: list[Line], tgt: list[Line], as_pair: AsPair) -> TextColumns:
    lines = src + tgt
    if not (Rejected in map(type, lines) or "" in lines or any(map(str.isspace, cast("list[str]", lines)))):
        return TextColumns(cast("list[str]", src), cast("list[str]", tgt))
    pairs = map(as_pair, src, tgt)
    rejected = {i: pair for i, pair in enumerate(pairs) if isinstance(pair, Rejected)}
    return TextColumns(_texts(src), _texts(tgt), rejected)


def _texts(lines: list[Line]) -> list[str]:
    return ["" if isinstance(line, Rejected) else line for line in lines]


def _unequal(src_path: Path, tgt_path: Path, n_src: int, n_tgt: int) -> DataError:
    from s2s.data.misalignment import first_misaligned_line  # numpy, which a search for missing files does without

    counts = f"{src_path} has {n_src:,} lines and {tgt_path} has {n_tgt:,}; they must be parallel, line by line"
    line = first_misaligned_line(src_path, tgt_path, n_src, n_tgt)
    if line is None:
        return DataError(f"{counts}. The shorter one seems to be cut off at its end")
    return DataError(f"{counts}. By their lengths they part near line {line:,}: look there")
