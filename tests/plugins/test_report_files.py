"""Reports of plain files: outputs against references, without a run."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from s2s.cli.score import main as score
from s2s_report import ReportConfig, command
from s2s_report.text_words import count_ngrams, f1, matched_ngrams, matches_by_bucket, text_words

if TYPE_CHECKING:
    from pathlib import Path

REF = ["Der alte Hund schläft.", "Sie sieht die Katze.", "Die Katze schläft nicht!", "Wir essen Brot."] * 10
SRC = ["The old dog sleeps.", "She sees the cat.", "The cat does not sleep!", "We eat bread."] * 10
GOOD = [line.replace("alte", "ältere") for line in REF]
BAD = [line.replace("Katze", "Hund").replace("Brot", "Käse") for line in REF]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lines in {"ref.de": REF, "src.en": SRC, "good.de": GOOD, "bad.de": BAD, "short": REF[:-1]}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def page(folder: Path, *arguments: str) -> str:
    assert command.main([*arguments, "samples=20", "output=page", "--quiet"]) == 0
    html = (folder / "page.html").read_text(encoding="utf-8")
    assert "<h2>Verdict</h2>" in html
    return (folder / "page.md").read_text(encoding="utf-8")


def row(text: str, *cells: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("| " + " | ".join(cells) + " |"))


def test_scores_are_those_of_s2s_score(here: Path, capsys: Any) -> None:
    text = page(here, "hyp=[bad.de,good.de]", "ref=ref.de")
    capsys.readouterr()
    assert score(["hyp=[bad.de,good.de]", "ref=ref.de", "samples=20"]) == 0
    values = re.findall(r"^  (?:bad|good)\.de +(\d+\.\d\d) ", capsys.readouterr().out, re.MULTILINE)
    assert values == [
        row(text, metric, name).split(" | ")[2] for metric in ("bleu", "chrf") for name in ("bad.de", "good.de")
    ]
    assert "good.de is better than bad.de" in text


def test_words_that_one_file_has_wrong_stand_in_the_tables(here: Path) -> None:
    text = page(here, "hyp=[bad.de,good.de]", "ref=ref.de", "src=src.en")
    assert row(text, "Katze", "20", "0")
    assert row(text, "alte", "10", "0")
    assert "words of the source" in text
    assert "## Signs of hallucination" in text
    assert "bad.de has right, and good.de less often" in text


def test_without_sources_lengths_are_those_of_the_references(here: Path) -> None:
    text = page(here, "hyp=bad.de", "ref=ref.de")
    assert "words of the reference" in text
    assert "source" not in text
    assert row(text, "Käse", "10", "0")


def test_frequencies_are_those_of_the_training_text(here: Path) -> None:
    (here / "train").write_text("Katze\n" * 7 + "der Hund\n", encoding="utf-8")
    text = page(here, "hyp=good.de", "ref=ref.de", "train=train")
    assert "occurrences in training | words of the references" in text
    assert row(text, "5–19").startswith("| 5–19 | 20 | 100.0")
    assert row(text, "1–4").startswith("| 1–4 | 10 | 100.0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hyp=bad.de"], "give runs, or outputs with references"),
        (["hyp=bad.de", "ref=ref.de", "run=x"], "give runs, or outputs with references"),
        (["hyp=[bad.de,bad.de]", "ref=ref.de"], "a file is named twice"),
        (["hyp=short", "ref=ref.de"], "short has 39 lines and ref.de has 40; they must be parallel"),
        (["hyp=bad.de", "ref=ref.de", "src=short"], "short has 39 lines"),
        (["hyp=gone", "ref=ref.de"], "gone: no such file"),
        (["hyp=bad.de", "ref=/dev/null"], "is a pipe or a device"),
        (["run=x", "train=short"], "train"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, here: Path, capsys: Any) -> None:
    assert command.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_the_command_in_the_report_makes_it_again() -> None:
    config = ReportConfig(hyp=["a", "b"], ref="c", train="d", shown=3)
    assert command.again(config) == "s2s-report hyp=[a,b] ref=c train=d shown=3"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't go, 3.5 km!", ["Don", "'", "t", "go", ",", "3", ".", "5", "km", "!"]),
        ("我爱猫。", ["我", "爱", "猫", "。"]),
        ("iPhone 在桌上", ["iPhone", "在", "桌", "上"]),
        ("", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert text_words(text) == words


def test_matches_are_counted_word_by_word() -> None:
    """Against counting by hand: every word of the output uses up one equal word of its reference."""
    hyps, refs = ["a a b c", "b"], ["a b b d", "c"]
    kinds = {"a": 0, "b": 1}
    counts = matches_by_bucket(hyps, refs, lambda word: kinds.get(word, 2), 3)
    assert counts.tolist() == [[[1, 2, 1], [0, 0, 0]], [[1, 1, 2], [0, 1, 0]], [[0, 1, 1], [0, 0, 1]]]
    precision, recall = 2 / 5, 2 / 5
    assert f1(counts.sum((0, 1))) == pytest.approx(100 * 2 * precision * recall / (precision + recall))
    assert f1(np.zeros(3)) == 0


def test_ngrams_of_up_to_four_words() -> None:
    assert count_ngrams(["a b a", "b"]) == Counter(
        {("a",): 2, ("b",): 2, ("a", "b"): 1, ("b", "a"): 1, ("a", "b", "a"): 1}
    )
    assert matched_ngrams(["a b a"], ["b a c"]) == Counter({("a",): 1, ("b",): 1, ("b", "a"): 1})
