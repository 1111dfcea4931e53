"""A run without an architecture: how one is chosen, what is kept, what overrides it."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

import pytest

from s2s.cli.prepare import main as prepare
from s2s.cli.train import main
from s2s.compose import compose
from s2s.config import Config
from s2s.errors import CheckpointError
from s2s.io.json_files import dump_record, read_record
from s2s.plugin import load_plugins
from s2s_plan.budget import read_points
from s2s_plan.plan import PLAN, Decision, Plan
from s2s_plan.situation import recipe_of

if TYPE_CHECKING:
    from pathlib import Path

PLUGINS = load_plugins()
SMALL = ["train.threads=1", "valid.sentences=3", "search=greedy", "log.tensorboard=false", "valid.score=false"]


@pytest.fixture(autouse=True)
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments that name a small corpus in the working directory."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefgh", k=5)) for _ in range(400)]
    for side in ("a", "b"):
        lines = [" ".join(rng.choices(words, k=rng.randint(2, 7))) for _ in range(300)]
        (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n")
        (tmp_path / f"dev.{side}").write_text("\n".join(lines[:20]) + "\n")
    return ["task=translation", "task.train=[train.a,train.b]", "task.valid=[dev.a,dev.b]", *SMALL]


def resolved(run: Path) -> dict[str, str]:
    """Option -> its origin, of the last part of its key, as resolved.yaml has them."""
    lines = [line.partition("  # ") for line in (run / "resolved.yaml").read_text().splitlines()]
    return {line.strip(): origin for line, _, origin in lines}


@pytest.mark.parametrize(
    ("arguments", "recipe"),
    [
        (["task=translation"], "auto"),
        (["task=parsing"], "auto"),
        (["task=translation", "arch.d_model=128"], "auto"),
        (["task=translation", "arch=transformer_big"], ""),
        (["task=translation", "recipe=none"], ""),
        (["task=translation", "arch=transformer_tiny", "recipe=auto"], "auto"),
        (["experiment=demo"], ""),
        (["task=translation", "train.init_from=runs/a"], "fine_tuning"),
        (["task=translation", "train.init_from=runs/a", "recipe=none"], ""),
        (["experiment=demo", "train.init_from=runs/a"], ""),
    ],
)
def test_who_names_an_architecture_or_an_experiment_gets_no_recipe(arguments: list[str], recipe: str) -> None:
    assert recipe_of(compose(Config, arguments, PLUGINS)) == recipe


def test_a_run_keeps_its_plan_and_what_is_given_overrides_it(
    corpus: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "translation-auto"
    hours = 1e-6  # too short for any machine, which leaves the smallest model
    given = [*corpus, "arch.d_ff=72", "train.steps=4", f"recipe.hours={hours}", "recipe=auto"]
    assert main([*given, f"run={run}"]) == 0
    (chosen,) = [line for line in capsys.readouterr().out.splitlines() if "reasons: " in line]
    assert "arch.d_model=64" in chosen
    assert "arch.d_ff" not in chosen, "what is given was not chosen"
    origins = resolved(run)
    assert origins["d_ff: 72"] == "command line"
    assert origins["d_model: 64"].startswith("recipe=auto: 300 pairs, 1 CPU core, ")
    plan = read_record(run / PLAN)
    assert plan["fingerprint"]["n_pairs"] == 300
    assert plan["fingerprint"]["overlap"] == {"valid": 1.0}
    altered = [{**d, "value": 96} if d["key"] == "arch.d_ff" else d for d in plan["decisions"]]
    (run / PLAN).write_bytes(dump_record({**plan, "decisions": altered}))
    capsys.readouterr()
    assert main([*given, f"run={run}", "train.steps=6"]) == 0, "the plan that was kept is used, not a new one"
    out, err = capsys.readouterr()
    assert "continuing after update 4" in out
    assert "schedule.steps follows train.steps, from 4 to 6, from here on" in err


def test_plan_and_forecast_count_pairs_by_the_weights_of_their_corpora(
    corpus: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    weighted = "task.train={own: {files: [train.a,train.b], weight: 2}, more: {files: [dev.a,dev.b], weight: 0.5}}"
    given = [*corpus, weighted, "recipe=auto", "recipe.hours=1e-6", "arch.d_model=16", "train.tokens=256"]
    given.append("data.decontaminate=false")
    assert main([*given, "run=x", "--dry-run"]) == 0
    pairs = re.findall(r"epochs of (\d+) pairs", capsys.readouterr().out)
    assert set(pairs) == {str(2 * 300 + 20 // 2)}


def test_the_same_command_continues(corpus: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*corpus, "train.steps=3", "train.tokens=256"]
    assert main(arguments) == 0
    assert (tmp_path / "runs" / "translation-auto" / PLAN).is_file()
    assert main(arguments) == 0
    assert "is finished after 3 updates" in capsys.readouterr().out
    assert main(["runs/translation-auto/config.yaml", "train.steps=5", "--quiet"]) == 0


def test_print_config_says_why(corpus: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*corpus, "--print-config"]) == 0
    out = capsys.readouterr().out
    assert "# recipe=auto: neither arch nor experiment is named" in out
    assert "target words (after Gowda and May" in out


@pytest.mark.parametrize(("subword", "is_chosen"), [("bpe", True), ("{name: hf, file: tokens.json}", False)])
def test_the_size_of_a_complete_vocabulary_is_not_chosen(
    subword: str, is_chosen: bool, corpus: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """hf and marian bring their tokens, and a size beside them is refused."""
    assert main([*corpus, f"task.subword={subword}", "recipe=auto", "--print-config"]) == 0
    assert ("vocab_size: null" not in capsys.readouterr().out.partition("src_vocab_size")[0]) is is_chosen


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["task=translation"], "task.vocab_size"),
        (["task=translation", "task.vocab_size=90"], ""),
        (["task=translation", "task.subword={name: marian, folder: opus}"], ""),
        (["task=parsing"], "task.src_vocab_size"),
        (["task=parsing", "task.src_vocab_size=90"], ""),
        (["task=parsing", "task.words=parts"], ""),
        (["task=parsing", "task.subword={name: hf, file: tokens.json}"], ""),
    ],
)
def test_a_task_names_the_size_that_is_left_open(arguments: list[str], option: str) -> None:
    config = compose(Config, arguments, PLUGINS).config.task
    assert PLUGINS.registry.get("task", config.name).build(config).open_vocab_size() == option


def test_a_budget_gives_the_length_of_the_run(corpus: list[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = [*corpus, "arch=transformer_tiny", "task.vocab_size=150", "train.tokens=256", "train.budget=3s"]
    assert main([*arguments, "schedule=linear", f"run={run}"]) == 0
    status, plan = json.loads((run / "status.json").read_text()), read_record(run / PLAN)
    found = {d["key"]: d["value"] for d in plan["decisions"]}
    points = read_points(run)
    assert found["train.steps"] >= 1, "on a machine that is busy"
    assert status["steps"] == (points[-1].length if points else found["train.steps"])
    assert found.keys() == {"train.steps", "schedule.warmup", "valid.every", "checkpoint.every"}
    (origin,) = [o for key, o in resolved(run).items() if key == f"steps: {found['train.steps']}" and "as " not in o]
    assert origin.startswith("train.budget=3s: ")
    warmup = f"warmup: {found['schedule.warmup']}"
    assert resolved(run)[warmup].startswith("train.budget=3s: "), "also under a schedule that the user has named"


def test_a_damaged_plan_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / PLAN).write_text("{")
    with pytest.raises(CheckpointError, match=r"plan.json is damaged"):
        Plan.read(tmp_path)
    plan = Plan("recipe=x", (Decision("arch.d_model", 8, "because", "a paper"),))
    (tmp_path / PLAN).write_bytes(plan.to_bytes())
    assert Plan.read(tmp_path) == plan
    assert plan.settings()[0].origin == "recipe=x: because (a paper)"


def test_without_the_plugin_values_are_as_configured(
    corpus: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "plan")
    small = ["arch=transformer_tiny", "task.vocab_size=150", "train.tokens=256", "train.steps=2"]
    assert main([*corpus, *small]) == 0
    run = tmp_path / "runs" / "translation-transformer_tiny"
    assert json.loads((run / "status.json").read_text())["steps"] == 2
    assert not (run / PLAN).exists()
    capsys.readouterr()
    assert main([*corpus, *small, "run=other", "train.budget=3s"]) == 2
    missing, absent = (
        "train.budget: no such option of train (TrainConfig)",
        "Left out by S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS: plan",
    )
    assert f"{missing}. No loaded plugin offers it. {absent}" in capsys.readouterr().err


def test_s2s_prepare_makes_what_s2s_train_finds(corpus: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    data = [argument for argument in corpus if argument.startswith("task")]
    assert prepare(data) == 0
    out = capsys.readouterr().out
    assert out.startswith("task.vocab_size=400  recipe=auto: ")
    folder = next(word for word in out.split() if word.startswith("runs/prepared/"))
    assert main([*corpus, "train.steps=1", "train.tokens=256"]) == 0
    assert f"found in {folder}" in capsys.readouterr().out
