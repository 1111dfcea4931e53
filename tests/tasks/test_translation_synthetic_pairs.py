"""Training pairs from a model's translations."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest

from harness.tiny_runs import call, train_tiny
from s2s.task import Example
from s2s_text_corpora.parallel import read_pairs
from s2s_translation.synthetic_pairs import main

if TYPE_CHECKING:
    from pathlib import Path

LINES = [
    "ein Hund\ta dog\t-0.10",
    "ein Hund\tone dog\t-0.90",  # the second best
    "zwei Katzen\ttwo cats\t-0.30",
    "zwei Katzen\ttwo cats\t-0.30",  # the line stands in the text once more
    "OK\tOK\t-0.01",
    "nichts\t\t-inf",
    "drei Tage lang\tweeks and weeks and weeks and weeks\t-0.40",  # 7 words for 3
    "eins\tmore column\tone\t-0.70",  # columns of the input that s2s-generate carried along
    "",
]


def made(folder: Path, *options: str, name: str = "pairs.tsv") -> list[tuple[str, ...]]:
    (folder / "out.tsv").write_text("".join(f"{line}\n" for line in LINES))
    assert main([str(folder / "out.tsv"), "-o", str(folder / name), *options]) == 0
    data = (folder / name).read_bytes()
    text = gzip.decompress(data) if name.endswith(".gz") else data
    return [tuple(line.split("\t")) for line in text.decode().splitlines()]


def test_a_back_translation_is_the_source_behind_its_tag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = [("a dog", "ein Hund"), ("two cats", "zwei Katzen"), ("one", "eins")]
    assert made(tmp_path, "--back", "--ratio", "2") == expected
    assert capsys.readouterr().err == (
        f"{tmp_path}/pairs.tsv: 3 pairs, 1 copied, 1 lengths over 2, 2 repeated, 1 without a translation\n"
    )
    assert made(tmp_path, "--back", "--ratio", "2", "--tag", "<BT>", name="p.tsv.gz") == [
        (f"<BT> {src}", tgt) for src, tgt in expected
    ]
    assert not list(tmp_path.glob(".*")), "nothing temporary is left"


def test_a_distilled_output_is_the_target(tmp_path: Path) -> None:
    assert made(tmp_path, "--forward", "--ratio", "2") == [
        ("ein Hund", "a dog"),
        ("zwei Katzen", "two cats"),
        ("eins", "one"),
    ]
    every = made(tmp_path, "--forward", "--ratio", "2", "--every")
    assert every == [("ein Hund", "a dog"), ("ein Hund", "one dog"), ("zwei Katzen", "two cats"), ("eins", "one")]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (["--least", "-0.2"], ["ein Hund"]),
        (["--longest", "1"], ["eins"]),
        (["--longest", "7"], ["ein Hund", "zwei Katzen", "drei Tage lang", "eins"]),
    ],
)
def test_scores_and_lengths_are_bounds(tmp_path: Path, options: list[str], kept: list[str]) -> None:
    assert [tgt for _, tgt in made(tmp_path, "--back", *options)] == kept


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        ("a\tb\n", ["--back"], "out.tsv:1: expected a text, its translation and a score"),
        ("a\tb\t-1\n", ["--forward", "--tag", "<BT>"], "tags go with --back"),
        ("a\tb\t-1\n", ["--back", "-o", "pairs.txt"], "pairs are written as .tsv or .tsv.gz"),
    ],
    ids=["no score", "tag", "name"],
)
def test_mistakes_are_one_line(
    tmp_path: Path, lines: str, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out.tsv").write_text(lines)
    assert main([str(tmp_path / "out.tsv"), "-o", str(tmp_path / "pairs.tsv"), *options]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "pairs.tsv").exists()


def test_what_a_run_translates_becomes_a_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """In two shards, joined; the pairs are read as the training corpus they are for."""
    train_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mono.en").write_text("a dog\nthe old cat\nthe cat sees\na cat eats\n")
    generate = ["run=x", "input=mono.en", "output=mono.tsv", "format=tsv", "search=sample", "--quiet"]
    for shard in ("1/2", "2/2"):
        assert call("s2s-generate", [*generate, f"shard={shard}"], capsys)[0] == 0
    assert main(["mono.tsv", "-o", "back.tsv.gz", "--back", "--tag", "<BT>", "--ratio", "100"]) == 0
    texts = ["a dog", "the old cat", "the cat sees", "a cat eats"]
    pairs = list(read_pairs(["back.tsv.gz"]))
    assert pairs
    for pair in pairs:
        assert isinstance(pair, Example)
        assert pair.src.startswith("<BT> ")
        assert pair.tgt in texts
