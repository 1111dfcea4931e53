"""Which of a parser's own parses to learn from."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest

from s2s_parsing.silver import main

if TYPE_CHECKING:
    from pathlib import Path

A, B, C = "(TOP (S (NN a)))", "(TOP (S (NN b)))", "(TOP (S (NN c) (NN d)))"
LINES = [
    f"a\t{A}\t-0.10",
    f"a\t{B}\t-0.90",  # the second best of the same sentence
    f"b\t{B}\t-0.30",
    f"c d\t{C}\t-0.20",
    f"b\t{B}\t-0.05",  # the same sentence again
    "e\t(TOP (S (XX e)))\t-inf",  # no parse was found
    "",
]


@pytest.fixture
def parsed(tmp_path: Path) -> Path:
    path = tmp_path / "parsed.tsv"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def silver(parsed: Path, *options: str, name: str = "silver.mrg") -> tuple[int, list[str]]:
    output = parsed.with_name(name)
    code = main([str(parsed), "-o", str(output), *options])
    text = gzip.decompress(output.read_bytes()) if name.endswith("gz") else output.read_bytes()
    return code, text.decode().splitlines()


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ([], [A, B]),  # the better half of four: -0.10 and -0.05
        (["--keep", "0.75"], [A, C, B]),
        (["--keep", "1"], [A, B, C]),
        (["--keep", "0.01"], [B]),
        (["--least", "-0.2"], [A, C, B]),
        (["--least", "0"], []),
        (["--keep", "1", "--longest", "1"], [A, B]),
    ],
)
def test_the_surest_parses_are_kept_each_sentence_once(parsed: Path, options: list[str], kept: list[str]) -> None:
    assert silver(parsed, *options) == (0, kept)


def test_sentences_of_a_test_set_are_left_out_and_all_is_counted(parsed: Path, capsys: Any) -> None:
    held_out = parsed.with_name("test.mrg")
    held_out.write_text("( (S (NP-SBJ (NNP c))\n  (VP (VB d) (-NONE- *))) )\n")
    assert silver(parsed, "--keep", "1", "--without", str(held_out), name="s.mrg.gz") == (0, [A, B])
    assert capsys.readouterr().err == (
        f"{parsed.with_name('s.mrg.gz')}: 2 trees of a score of at least -0.3000, 1 again the same sentence, "
        "1 held out, 1 without a parse\n"
    )


def test_raw_text_is_compared_by_the_words_of_its_trees(parsed: Path) -> None:
    """As s2s-generate raw=true writes it, whose first column is the text before it is tokenised."""
    tree = "(TOP (S (PRP It) (VBZ 's) (-LRB- -LRB-) (JJ odd) (-RRB- -RRB-) (. .)))"
    parsed.write_text(f"It's (odd).\t{tree}\t-0.1\nIt 's ( odd ) .\t{tree}\t-0.2\n")
    assert silver(parsed, "--keep", "1") == (0, [tree])
    assert silver(parsed, "--keep", "1", "--longest", "5") == (0, [])
    held_out = parsed.with_name("test.mrg")
    held_out.write_text(f"{tree}\n")
    assert silver(parsed, "--keep", "1", "--without", str(held_out)) == (0, [])


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ("a\t(TOP (NN a))", [], "parsed.tsv:1: expected a sentence, a tree and a score"),
        (f"a\t{A}\tgood", [], "parsed.tsv:1: expected a sentence, a tree and a score"),
        (f"a\t{A}\t0", ["--keep", "2"], "--keep 2.0: give a share above 0 and at most 1"),
        (f"a\t{A}\t0", ["--keep", "1", "--least", "0"], "give one of them"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: Any, line: str, options: list[str], message: str
) -> None:
    parsed = tmp_path / "parsed.tsv"
    parsed.write_text(line + "\n")
    assert main([str(parsed), "-o", str(tmp_path / "s.mrg"), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "s.mrg").exists()


def test_neither_the_parses_nor_a_held_out_treebank_are_overwritten(parsed: Path, capsys: Any) -> None:
    held_out = parsed.with_name("test.mrg")
    held_out.write_text(f"{C}\n")
    for path in (parsed, held_out):
        before = path.read_bytes()
        assert main([str(parsed), "-o", str(path), "--without", str(held_out)]) == 2
        assert "both read and written" in capsys.readouterr().err
        assert path.read_bytes() == before
