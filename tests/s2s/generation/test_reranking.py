"""Alignments, copied words, coverage and minimum Bayes risk as users of s2s-generate request them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from sacrebleu.metrics import CHRF

from harness.tiny_runs import call, train_tiny
from s2s.cli.generate import main

if TYPE_CHECKING:
    from pathlib import Path

LINES = ["a dog sees the cat", "", "the old cat eats", "dog"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("choosing")
    train_tiny(folder)
    (folder / "in").write_text("".join(f"{line}\n" for line in LINES))
    (folder / "in.jsonl").write_text("".join(json.dumps({"src": line}) + "\n" for line in LINES))
    return folder


@pytest.fixture(autouse=True)
def _here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)


SETTINGS = ["run=x", "device=cpu", "threads=1", "search.max_len_b=4", "--quiet"]


def lines(capture: Any, *arguments: str) -> list[str]:
    assert main([*SETTINGS, *arguments]) == 0
    return capture.readouterr().out.decode().splitlines()


def objects(capture: Any, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(capture, "input=in.jsonl", "format=jsonl", *arguments)]


def test_alignments_are_pharaohs_and_the_same_in_both_formats(capsysbinary: Any) -> None:
    plain = lines(capsysbinary, "input=in")
    aligned = lines(capsysbinary, "input=in", "format=aligned")
    fields = objects(capsysbinary, "fields=[align,pieces]")
    for src, hyp, line, found in zip(LINES, plain, aligned, fields, strict=True):
        text, _, pairs = line.partition(" ||| ")
        assert text == hyp == found["hyp"]
        assert pairs.split() == found["align"]
        assert "".join(found["pieces"]).replace("▁", " ").strip() == hyp
        numbers = [tuple(map(int, pair.split("-"))) for pair in found["align"] if re.fullmatch(r"\d+-\d+", pair)]
        assert len(numbers) == len(found["align"])
        assert all(i < len(src.split()) and j < len(hyp.split()) for i, j in numbers)
        assert {j for _, j in numbers} == set(range(len(hyp.split()))), "each word of the output looks somewhere"


def test_a_layer_is_asked_by_its_number(capsysbinary: Any) -> None:
    first = lines(capsysbinary, "input=in", "format=aligned")
    assert lines(capsysbinary, "input=in", "format=aligned", "attention_layer=1") == first


def test_minimum_bayes_risk_is_the_mean_of_sacrebleus_chrf(capsysbinary: Any) -> None:
    sampled = ["search=sample", "search.seed=3"]
    samples = objects(capsysbinary, *sampled, "nbest=12")
    chosen = objects(capsysbinary, *sampled, "candidates=12", "mbr=chrf", "nbest=2")
    for candidates, found in zip(samples, chosen, strict=True):
        hyps = [candidate["hyp"] for candidate in candidates["nbest"]]
        risk = {h: sum(CHRF().sentence_score(h, [r]).score for r in hyps) / len(hyps) for h in hyps}
        best = sorted(risk.values(), reverse=True)
        if candidates["src"]:
            assert [one["score"] for one in found["nbest"]] == pytest.approx(best[: len(found["nbest"])], abs=1e-4)
            assert risk[found["hyp"]] == pytest.approx(best[0])


def test_coverage_chooses_from_the_whole_beam(capsysbinary: Any) -> None:
    beam = objects(capsysbinary, "nbest=4")
    for weak, found in zip(beam, objects(capsysbinary, "coverage=1000"), strict=True):
        assert found["hyp"] in [one["hyp"] for one in weak["nbest"]]
        assert found["score"] <= weak["score"], "what is not covered costs"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["format=aligned", "attention_layer=7"], "attention_layer=7: the decoder has 1, numbered from 1"),
        (["candidates=5"], "are for an option to choose from, such as coverage or mbr; give one"),
        (["mbr=chrf", "search=greedy"], "search=greedy gives one; give candidates=N"),
        (["mbr=chrf", "search=sample"], "search=sample gives one; give candidates=N"),
        (["mbr=chrf", "candidates=9"], "candidates=9 are more than search.beam=4 finds; give search.beam=N"),
        (["mbr=chrff"], "Did you mean 'chrf'?"),
        (["mbr={name: chrf, orders: 2}"], "orders"),
        (["mbr=chrf", "mbr_weights=some"], "mbr_weights"),
        (["coverage=-1"], "coverage=-1.0 must be at least 0"),
        (["fields=[align,piece]", "format=jsonl"], "choose of tokens, pieces, log_probs, align"),
        (["fields=[align]"], "needs format=jsonl"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, capsys: Any) -> None:
    code, out, err = call("s2s-generate", ["run=x", "input=in", "device=cpu", *arguments], capsys)
    assert (code, out) == (2, "")
    assert message in err
