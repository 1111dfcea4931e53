"""s2s-score contrastive=FILE: accuracies of cases, and of pronouns that only the sentence before decides."""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING, Any

import pytest

import s2s
from harness.tiny_runs import call, train_tiny
from s2s.cli import train
from s2s.cli.scoring.contrastive import Accuracies, Accuracy, JudgedCase

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("n_right", "n"), [(0, 1), (1, 1), (3, 4), (0, 50), (37, 50), (812, 1000)])
def test_the_interval_is_wilsons(n_right: int, n: int) -> None:
    """At its ends, the share that was observed lies 1.96 standard deviations from the true one."""
    for end in Accuracy(n, n_right).interval:
        p = end / 100
        assert abs(n_right / n - p) == pytest.approx(1.959964 * math.sqrt(max(p * (1 - p), 0) / n), abs=1e-9)


def test_a_case_is_right_if_its_reference_is_above_all_others() -> None:
    cases = [
        JudgedCase("er", -1, [-2, -3]),
        JudgedCase("es", -2, [-3, -1]),
        JudgedCase("er", -1, [-1]),
        JudgedCase("", 0, [-1]),
    ]
    counted = Accuracies.count(cases)
    assert (counted.total.n_right, counted.total.n) == (2, 4)
    assert {name: (one.n_right, one.n) for name, one in counted.phenomena.items()} == {"er": (1, 2), "es": (0, 1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("contrastive")
    train_tiny(folder)
    rows = [
        {"src": "a dog", "ref": "ein hund", "contrastive": ["ein kater", "hund"], "phenomenon": "noun"},
        {"src": "the cat eats", "ref": "der kater isst", "contrastive": ["isst"], "context": ["ignored"]},
        {"src": "old", "ref": "alter alter", "contrastive": ["alter"], "phenomenon": "number"},
    ]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    return folder


def test_probabilities_are_those_of_forced_decoding(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(folder)
    code, out, _ = call("s2s-score", ["model=x", "contrastive=cases.jsonl", "format=json", "--per-sentence"], capsys)
    report = json.loads(out)
    model = s2s.load("x")
    assert (code, report["cases"]) == (0, 3)
    for line, judged in zip(
        (folder / "cases.jsonl").read_text().split("\n"), report["scores"][0]["cases"], strict=False
    ):
        row = json.loads(line)
        scores = [model.score(row["src"], tgt).log_prob for tgt in (row["ref"], *row["contrastive"])]
        assert [judged["ref"], *judged["contrastive"]] == pytest.approx(scores, abs=1e-4)
        assert judged["right"] is (scores[0] > max(scores[1:]))
    assert report["scores"][0]["n_right"] == sum(one["right"] for one in report["scores"][0]["cases"])


def test_the_table_has_a_line_for_every_phenomenon(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(folder)
    code, out, _ = call("s2s-score", ["model=x", "contrastive=cases.jsonl"], capsys)
    head, *lines = out.splitlines()
    assert (code, head) == (0, "accuracy  model:x|checkpoint:step-000004|by:log p|context:0")
    assert [line.split()[0] for line in lines] == ["noun", "number", "all"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ('{"src": "a"}', "no 'src' and 'ref' that are texts"),
        ('{"src": "a", "ref": "b", "contrastive": []}', "'contrastive' is no list of texts"),
        ('{"src": "a", "ref": "b", "contrastive": "c"}', "'contrastive' is no list of texts"),
        ("", "is empty"),
    ],
)
def test_a_bad_case_is_one_line(line: str, message: str, folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(folder)
    (folder / "bad.jsonl").write_text(f"{line}\n")
    code, _, err = call("s2s-score", ["model=x", "contrastive=bad.jsonl"], capsys)
    assert code == 2
    assert message in err
    assert "bad.jsonl" in err


@pytest.mark.parametrize(
    "arguments", [["contrastive=cases.jsonl"], ["model=x"], ["model=x", "contrastive=cases.jsonl", "ref=r"]]
)
def test_options_that_do_not_go_together_are_refused(
    arguments: list[str], folder: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(folder)
    assert call("s2s-score", arguments, capsys)[0] == 2


NOUNS = {"key": ("Schlüssel", "er"), "spoon": ("Löffel", "er"), "lamp": ("Lampe", "sie"), "clock": ("Uhr", "sie"),
         "book": ("Buch", "es"), "picture": ("Bild", "es")}  # fmt: skip
ARTICLES = {"er": "der", "sie": "die", "es": "das"}
VERBS = {"is old": "ist alt", "is new": "ist neu", "is here": "ist hier"}


def two_sentences(draw: random.Random) -> tuple[list[str], list[str], str]:
    """A document of a noun and its pronoun, and the pronoun."""
    noun, (translation, pronoun) = draw.choice(list(NOUNS.items()))
    (first, erste), (second, zweite) = (draw.choice(list(VERBS.items())) for _ in range(2))
    return (
        [f"the {noun} {first}", f"it {second}"],
        [f"{ARTICLES[pronoun]} {translation} {erste}", f"{pronoun} {zweite}"],
        pronoun,
    )


@pytest.mark.slow
def test_a_model_with_context_knows_the_gender_of_a_pronoun(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """Without context nothing in `it` tells er from sie and es: a third is right, whatever a model learns."""
    monkeypatch.chdir(tmp_path)
    draw = random.Random(1)
    documents = [two_sentences(draw) for _ in range(1500)]
    for side, name in enumerate(("a.en", "a.de")):
        (tmp_path / name).write_text("\n".join("".join(f"{line}\n" for line in one[side]) for one in documents))
    cases = []
    for src, tgt, pronoun in (two_sentences(draw) for _ in range(150)):
        wrong = [tgt[1].replace(pronoun, other, 1) for other in ARTICLES if other != pronoun]
        cases.append({"src": src[1], "context": src[:1], "ref": tgt[1], "contrastive": wrong, "phenomenon": pronoun})
    (tmp_path / "cases.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    common = ["task=translation", "task.train=[a.en,a.de]", "task.subword=whitespace", "arch=transformer_tiny"]
    common += [
        "arch.d_model=32",
        "arch.d_ff=64",
        "arch.n_heads=2",
        "arch.n_encoder_layers=1",
        "arch.n_decoder_layers=1",
    ]
    common += ["schedule=inverse_sqrt", "schedule.lr=5e-3", "schedule.warmup=40", "train.steps=200", "train.tokens=400"]
    for name, context in (("with", 1), ("without", 0)):
        assert train.main([*common, f"task.context={context}", f"run={name}", "train.threads=1", "--quiet"]) == 0
    code, out, err = call("s2s-score", ["model=[with,without]", "contrastive=cases.jsonl", "format=json"], capsys)
    assert code == 0, err
    informed, uninformed = json.loads(out)["scores"]
    assert informed["value"] >= 95
    assert uninformed["value"] <= 50
