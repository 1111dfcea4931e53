"""Where two files become misaligned, against a plain search through every position."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest

from s2s.data import misalignment
from s2s.data.misalignment import MIN_EVIDENCE, first_misaligned_line

if TYPE_CHECKING:
    from pathlib import Path


def texts(n: int, seed: int) -> tuple[list[str], list[str]]:
    """Lines of 1 to 400 letters; the other side is a little longer."""
    draw = random.Random(seed)
    src = ["x" * round(math.exp(draw.uniform(0, 6))) for _ in range(n)]
    return src, [line + "y" * (len(line) // 5) for line in src]


def slow(src: list[str], tgt: list[str]) -> int:
    """The k, from 1, with the least sum of differences of log lengths if the gap is before line k."""
    short, long = sorted((src, tgt), key=len)
    short_logs, long_logs = ([math.log(1 + len(line)) for line in lines] for lines in (short, long))
    gap = len(long) - len(short)
    scale = sum(long_logs) / len(long_logs) - sum(short_logs) / len(short_logs)

    def cost(k: int) -> float:
        shifts = [0 if i < k else gap for i in range(len(short))]
        return sum(abs(long_logs[i + s] - short_logs[i] - scale) for i, s in enumerate(shifts))

    return min(range(len(short) + 1), key=cost) + 1


def found(folder: Path, src: list[str], tgt: list[str]) -> int | None:
    for name, lines in (("a", src), ("b", tgt)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return first_misaligned_line(folder / "a", folder / "b", len(src), len(tgt))


@pytest.mark.parametrize(("place", "n_lost"), [(0, 1), (1, 1), (30, 1), (30, 4), (50, 2)])
@pytest.mark.parametrize("side", ["src", "tgt"])
def test_lost_lines_are_found_where_they_were(tmp_path: Path, place: int, n_lost: int, side: str) -> None:
    src, tgt = texts(80, seed=place)
    del (src if side == "src" else tgt)[place : place + n_lost]
    line = found(tmp_path, src, tgt)
    assert line == slow(src, tgt) == place + 1


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("side", ["src", "tgt"])
def test_of_languages_of_which_one_is_much_wordier_the_same_line_is_named(tmp_path: Path, seed: int, side: str) -> None:
    draw = random.Random(seed)
    src = ["x" * draw.randint(3, 9) for _ in range(60)]
    tgt = ["y" * (4 * len(line) + draw.randint(-2, 2)) for line in src]
    del (src if side == "src" else tgt)[draw.randrange(20)]
    line = slow(src, tgt)
    assert line <= 59 - MIN_EVIDENCE
    assert found(tmp_path, src, tgt) == line


@pytest.mark.parametrize(("n_behind", "named"), [(MIN_EVIDENCE, True), (MIN_EVIDENCE - 1, False), (0, False)])
def test_a_gap_near_the_end_of_a_long_file_is_no_evidence(tmp_path: Path, n_behind: int, named: bool) -> None:
    src, tgt = texts(80, seed=5)
    place = len(tgt) - n_behind - 1
    del tgt[place]
    assert slow(src, tgt) == place + 1
    assert found(tmp_path, src, tgt) == (place + 1 if named else None)


@pytest.mark.parametrize(("n", "named"), [(MIN_EVIDENCE - 1, True), (MIN_EVIDENCE, False)])
def test_of_a_short_file_the_line_is_named_all_the_same(tmp_path: Path, n: int, named: bool) -> None:
    src, tgt = texts(n + 1, seed=3)
    del src[n - 4]
    assert slow(src, tgt) == n - 3
    assert found(tmp_path, src, tgt) == (n - 3 if named else None)


def test_lengths_are_logs_of_characters_and_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("äb\n\n".encode() + b"\xff\n\0\n")
    assert misalignment._log_lengths(tmp_path / "a").tolist() == pytest.approx([math.log(3), 0, 0, 0])


def test_lines_that_are_no_text_count_as_empty_and_a_file_may_have_none(tmp_path: Path) -> None:
    src, tgt = texts(60, seed=8)
    del tgt[20]
    for name, lines in (("a", src), ("b", tgt)):
        (tmp_path / name).write_bytes(
            b"".join(line.encode() + b"\n" for line in lines[:50]) + b"\xff\n" * (len(lines) - 50)
        )
    assert first_misaligned_line(tmp_path / "a", tmp_path / "b", 60, 59) == 21
    (tmp_path / "none").write_bytes(b"")
    assert first_misaligned_line(tmp_path / "none", tmp_path / "b", 0, 59) == 1
