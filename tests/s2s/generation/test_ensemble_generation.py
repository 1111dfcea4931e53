"""s2s-generate with several runs at once, on runs that s2s-train made."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.reference_search import next_log_probs
from harness.tiny_runs import SMALL, call, train_tiny
from s2s.cli import train
from s2s.plugin import load_plugins
from s2s.run import Run, find_run
from s2s.run.tokenizer import identity

if TYPE_CHECKING:
    from pathlib import Path

GENERATE = ["threads=1", "input=in.en", "search.max_len_b=5"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs x and y, of other sizes and seeds, with one vocabulary; z with another, whose symbols are as many."""
    folder = tmp_path_factory.mktemp("trained")
    train_tiny(folder)
    lines = (folder / "a.en").read_text().splitlines()[:6]
    (folder / "in.en").write_text("".join(f"{line}\n" for line in lines))
    (folder / "in.jsonl").write_text("".join(json.dumps({"src": line}) + "\n" for line in lines))
    (folder / "b.de").write_text((folder / "a.de").read_text().replace("u", "o"))
    others = {
        "y": ["arch.d_model=12", "arch.norm=pre", "seed=5"],
        "z": ["task.train=[a.en,b.de]"],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, options in others.items():
            assert train.main([*SMALL, "train.steps=4", f"run={name}", "--quiet", *options]) == 0
    return folder


@pytest.fixture(autouse=True)
def _here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)


def outputs(arguments: list[str], capsys: Any) -> list[dict[str, Any]]:
    options = ["input=in.jsonl", "format=jsonl", "fields=[tokens,log_probs]"]
    code, out, err = call("s2s-generate", [*GENERATE, *options, *arguments], capsys)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_runs_write_together_by_the_mean_of_their_probabilities(capsys: Any) -> None:
    found = outputs(["run=[x,y]", "checkpoint=[last,step-000004]"], capsys)
    plugins = load_plugins()
    runs = [Run.load(find_run(name), "auto", plugins, torch.device("cpu")) for name in ("x", "y")]
    for one in found:
        (source,) = runs[0].task.encode_source([one["src"]])
        each = [next_log_probs(run.model, source) for run in runs]
        symbols = [*one["tokens"], 3]
        for i, (symbol, log_prob) in enumerate(zip(symbols, one["log_probs"], strict=True)):
            mean = sum(math.exp(of(symbols[:i])[symbol]) for of in each) / 2
            assert log_prob == pytest.approx(math.log(mean), rel=1e-4)


def test_a_run_with_itself_is_that_run(capsys: Any) -> None:
    alone, twice = outputs(["run=x"], capsys), outputs(["run=x", "checkpoint=[last,step-000004]"], capsys)
    assert [one["hyp"] for one in alone] == [one["hyp"] for one in twice]
    assert [one["score"] for one in twice] == pytest.approx([one["score"] for one in alone], rel=1e-5)


def test_it_is_said_how_many_models_there_are(capsys: Any) -> None:
    _, _, err = call("s2s-generate", [*GENERATE, "run=[x,y]"], capsys)
    assert err.splitlines()[-1].endswith("an ensemble of 2 models")


def test_runs_with_other_symbols_are_refused_with_both_identities(capsys: Any) -> None:
    code, _, err = call("s2s-generate", [*GENERATE, "run=[x,z]"], capsys)
    assert code == 2
    assert "runs/z and runs/x do not share a vocabulary" in err
    for name in ("x", "z"):
        assert identity(find_run(name) / "tokenizer")[:12] in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run=[x,y]", "checkpoint=[last,last,last]"], "run=[x,y] names 2 of 3 models"),
        (["run=[x,y,x]", "checkpoint=[last,last]"], "checkpoint=[last,last] names 2 of 3 models"),
        (['run=[x,""]'], "run=[x,] names 1 of 2 models"),
        (["run=[]"], "run: which model?"),
        (["run=[x,v]"], "run=v: no such run"),
        (["run=[x,y]", "backend=ctranslate2"], "backend=ctranslate2 serves one model, not"),
        (["run=x", "fusion=v"], "fusion=v: no such run"),
        (["run=x", "fusion=z"], "do not share a vocabulary"),
        (["run=x", "fusion=y"], "fusion=y is a run of task=translation, whose outputs depend on a source"),
        (["run=x", "fusion=y", "fusion_weight=-1"], "fusion_weight=-1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_write_together_is_refused(arguments: list[str], complaint: str, capsys: Any) -> None:
    code, _, err = call("s2s-generate", [*GENERATE, *arguments], capsys)
    assert code == 2
    assert complaint in err


def test_an_output_is_not_continued_with_other_members(trained: Path, capsys: Any) -> None:
    command = [*GENERATE, "output=out", "resume=true"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("s2s.generation.files.resumable_file.ResumableFile.finish", lambda self: None)
        assert call("s2s-generate", [*GENERATE, "output=out", "run=[x,y]"], capsys)[0] == 0
    os.truncate(trained / "out.partial", 20)
    code, _, err = call("s2s-generate", [*command, "run=[x,x]"], capsys)
    assert code == 2
    assert "out.partial cannot be continued: checkpoint was [" in err
    assert call("s2s-generate", [*command, "run=[x,y]"], capsys)[0] == 0
