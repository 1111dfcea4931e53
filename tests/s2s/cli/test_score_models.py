"""s2s-score model=RUN as a user runs it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from harness.tiny_runs import call, train_tiny
from s2s.cli.generate import main as generate

LINES = ["a dog sees the cat", "the old cat eats", "", "dog"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("likelihood")
    train_tiny(folder)
    (folder / "in").write_text("".join(f"{line}\n" for line in LINES))
    (folder / "ref").write_text("ein hund sieht der kater\nder alter kater isst\n\n\n")
    (folder / "other").write_text("hund\nhund\nhund\nhund\n")
    return folder


@pytest.fixture(autouse=True)
def _here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)


def scored(capsys: Any, *arguments: str) -> tuple[int, str, str]:
    return call("s2s-score", ["model=x", "src=in", "device=cpu", *arguments], capsys)


def test_json_says_all_of_each_sentence(capsys: Any) -> None:
    code, out, err = scored(capsys, "ref=[ref,other]", "format=json", "--per-sentence")
    report = json.loads(out)
    assert (code, err, report["sentences"], len(report["scores"])) == (0, "", 4, 2)
    first = report["scores"][0]
    assert (first["model"], first["checkpoint"], first["system"], first["name"]) == ("x", "step-000004", "ref", "ppl")
    for sentence in first["sentences"]:
        assert len(sentence["log_probs"]) == len(sentence["tokens"]) + 1 == len(sentence["pieces"]) + 1
        assert sentence["log_prob"] == pytest.approx(sum(sentence["log_probs"]), abs=1e-5)
    assert "".join(first["sentences"][0]["pieces"]).replace("▁", " ").strip() == "ein hund sieht der kater"
    symbols = sum(len(sentence["log_probs"]) for sentence in first["sentences"])
    assert (first["n_tokens"], first["words"]) == (symbols, 9 + 4)
    log_prob = sum(sentence["log_prob"] for sentence in first["sentences"])
    assert first["log_prob"] == pytest.approx(log_prob, abs=1e-4)
    assert first["value"] == pytest.approx(math.exp(-log_prob / symbols), rel=1e-5)
    assert first["word_ppl"] == pytest.approx(math.exp(-log_prob / 13), rel=1e-5)


def test_what_was_generated_has_the_probabilities_that_it_was_given(trained: Path, capsysbinary: Any) -> None:
    (trained / "few.jsonl").write_text("".join(json.dumps({"src": line}) + "\n" for line in LINES if line))
    arguments = ["run=x", "input=few.jsonl", "format=jsonl", "fields=[tokens,log_probs]", "search.max_len_b=5"]
    assert generate([*arguments, "device=cpu", "threads=1", "--quiet"]) == 0
    outputs = [json.loads(line) for line in capsysbinary.readouterr().out.decode().splitlines()]
    (trained / "few").write_text("".join(f"{output['src']}\n" for output in outputs))
    (trained / "hyp").write_text("".join(f"{output['hyp']}\n" for output in outputs))
    code, out, _ = call_bytes(["model=x", "src=few", "hyp=hyp", "format=json", "--per-sentence"], capsysbinary)
    assert code == 0
    of_hyp = json.loads(out)["scores"][0]["sentences"]
    same = [(a, b) for a, b in zip(outputs, of_hyp, strict=True) if a["tokens"] == b["tokens"]]
    assert same, "text is cut into the tokens that it was written in, but for rare cases"
    for output, sentence in same:
        assert sentence["log_probs"] == pytest.approx(output["log_probs"], abs=6e-5)  # written with four digits


def call_bytes(arguments: list[str], capsysbinary: Any) -> tuple[int, str, str]:
    from s2s.cli.score import main

    code = main([*arguments, "device=cpu"])
    out, err = capsysbinary.readouterr()
    return code, out.decode(), err.decode()


def test_the_table_has_a_line_for_every_file_and_sentence(capsys: Any) -> None:
    code, out, err = scored(capsys, "hyp=other", "ref=ref", "--per-sentence")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "4 sentences"
    assert lines[2] == "ppl (lower is better)  model:x|checkpoint:step-000004|ends:counted"
    assert [line.split()[0] for line in lines if line[:3] == "   "] == ["1", "2", "3", "4"] * 2
    assert [line.split()[0] for line in lines if "per word" in line] == ["other", "ref"]
    assert max(map(len, lines)) <= 120


def test_several_models_are_asked_in_turn(capsys: Any) -> None:
    _, out, _ = scored(capsys, "ref=ref", "format=json", "model=[x,runs/x]", "model_checkpoint=step-000002")
    first, second = json.loads(out)["scores"]
    assert (first["model"], second["model"], first["checkpoint"]) == ("x", "runs/x", "step-000002")
    assert first["value"] == second["value"]


def test_a_dry_run_finds_the_model_and_does_not_load_it(capsys: Any) -> None:
    Path("empty").mkdir(exist_ok=True)
    (Path("empty") / "resolved.yaml").touch()
    code, out, _ = call("s2s-score", ["model=empty", "src=in", "ref=ref", "--dry-run"], capsys)
    assert (code, out) == (0, "4 sentences, 1 files, 1 models: ready\n")
    code, _, err = call("s2s-score", ["model=nowhere", "src=in", "ref=ref", "--dry-run"], capsys)
    assert (code, "model=nowhere: no such run" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model=x", "src=in"], "of which outputs? Give hyp=FILE, ref=FILE or both"),
        (["model=x", "ref=ref"], "give a model with one of the others"),
        (
            ["task=translation", "hyp=ref", "ref=ref", "model_checkpoint=last"],
            "model_checkpoint=last has no effect without model",
        ),
        (
            ["task=translation", "hyp=[ref,ref]", "ref=ref", "paired_test=randomization", "samples=0"],
            "paired_test=randomization has no effect without samples above 0",
        ),
        (["task=translation", "hyp=ref", "ref=ref", "tokens=7"], "tokens=7 has no effect without model"),
        (["task=translation", "hyp=ref", "ref=ref", "device=cpu"], "device=cpu has no effect without model"),
        (["src=in", "hyp=ref", "ref=ref", "task=translation"], "or none of them, for metrics"),
        (["model=x", "src=in", "ref=ref", "task=translation"], "the task is the run's"),
        (["model=x", "src=in", "ref=ref", "metrics=bleu"], "no metric is taken"),
        (["model=x", "src=in", "ref=ref", "lowercase=true"], "lowercase: no such option"),
        (["model=y", "src=in", "ref=ref"], "y"),
        (["model=[x,x]", "src=in", "ref=ref"], "a run stands there twice"),
        (["model=x", "src=in", "ref=a.de"], "a.de has 100 lines and in has 4"),
        (["model=x", "src=-", "ref=ref"], "give a regular file, not a pipe"),
        (["model=x", "src=in", "ref=/dev/null"], "give a regular file, not a pipe"),
        (["model=x", "src=gone", "ref=ref"], "no such file"),
        (["model=x", "src=in", "ref=ref", "tokens=0"], "tokens"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, capsys: Any) -> None:
    code, out, err = call("s2s-score", arguments, capsys)
    assert (code, out) == (2, "")
    assert message in err
