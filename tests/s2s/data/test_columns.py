"""Pairs in columns are the pairs one by one: in reading, in encoding, and in what is written."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from s2s.data.columns import EncodedColumns, PairReader, TextColumns, column
from s2s.data.parallel_text import parallel_pairs
from s2s.data.text import LineReader, numbered_lines
from s2s.errors import DataError
from s2s.task import Encoded, Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from s2s.data.columns import Wanted
    from s2s.data.text import Line


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """More than one block of lines, some of them no text."""
    draw = random.Random(1)
    usual = (b"", b"a", "é\r".encode(), b"x" * 2000, b"\xff", b"a\0b", "\u2028".encode())
    (tmp_path / "text").write_bytes("\ufeff".encode() + b"".join(draw.choice(usual) + b"\n" for _ in range(9_000)))
    return tmp_path / "text"


def test_lines_are_taken_and_skipped_in_any_numbers(text: Path) -> None:
    lines = [line for _, line in numbered_lines(text, "drop")]
    draw, at, reader = random.Random(2), 0, LineReader(text, "drop")
    while at < len(lines):
        n = draw.choice((0, 1, 7, 500, 4000))
        if draw.random() < 0.5:
            assert reader.take(n) == lines[at : at + n]
        else:
            assert reader.skip(n) == len(lines[at : at + n])
        at += n
    assert (reader.take(1), reader.skip(), reader.skip(3)) == ([], 0, 0)
    assert LineReader(text, "drop").skip() == len(lines)


def test_an_error_behind_skipped_lines_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xff\n" + b"x" * (1 << 19) + b"\n" + b"y" * (1 << 20) + b"\nz\n\xff\n")
    reader = LineReader(tmp_path / "text", "error")
    reader.skip(2)
    with pytest.raises(DataError, match=r"text:5: invalid UTF-8"):
        reader.take(3)


def as_pair(src: Line, tgt: Line) -> Example | Rejected:
    return next((one for one in (src, tgt) if isinstance(one, Rejected)), None) or Example(str(src), str(tgt))


@pytest.mark.parametrize("n", [1, 1000, 10_000])
def test_columns_are_the_pairs_one_by_one(text: Path, n: int) -> None:
    lines = [line for _, line in numbered_lines(text, "drop")]
    pairs = [as_pair(src, tgt) for src, tgt in zip(lines, lines, strict=True)]
    reader = parallel_pairs(text, text, "drop", as_pair)
    assert isinstance(reader, PairReader)
    columns = list(filter(None, reader.columns(n, lambda _: True)))
    assert {len(each) for each in columns[:-1]} <= {n}
    assert [pair for each in columns for pair in each] == pairs
    assert [each[i] for each in columns for i in range(len(each))] == pairs
    assert list(parallel_pairs(text, text, "drop", as_pair)) == pairs
    raised = [Example(one.src.upper(), one.tgt.upper()) if isinstance(one, Example) else one for one in pairs]
    assert list(reader.mapped(str.upper)) == raised


def test_columns_are_sequences() -> None:
    texts = TextColumns(["a", "b", "c"], ["d", "e", "f"], {1: Rejected("empty")})
    assert texts[:2] == [Example("a", "d"), Rejected("empty")]
    assert texts[-1] == Example("c", "f")
    assert list(texts.take([0, 2])) == [Example("a", "d"), Example("c", "f")]
    ids = EncodedColumns([[1], [2, 3]], [[4], [5]])
    assert (list(ids), ids[1:][0]) == ([Encoded([1], [4]), Encoded([2, 3], [5])], Encoded([2, 3], [5]))
    for columns in (texts, ids):
        with pytest.raises(IndexError):
            columns[3]
    for side in ("src", "tgt"):
        assert column(ids, side) == column(list(ids), side)  # type: ignore[arg-type]


def test_a_reader_reads_when_it_is_asked() -> None:
    def columns(n: int, wanted: Wanted) -> Iterator[TextColumns | None]:
        yield TextColumns(["a"] * n, ["b"] * n)
        raise AssertionError("read too far")

    assert next(PairReader(columns)) == Example("a", "b")
