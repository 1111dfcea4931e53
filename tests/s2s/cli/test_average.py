from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.small_checkpoints import names
from harness.small_runs import CPU, letters_plugins, make_run
from harness.tiny_runs import train_tiny
from s2s.checkpoint import directory as checkpoint
from s2s.cli.average import main
from s2s.plugin import load_plugins
from s2s.run import Run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, dict[int, dict[str, torch.Tensor]]]:
    path = tmp_path / "x"
    best = [[-1.0, 20], [-1.5, 40], [-2.0, 10], [-3.0, 5]]  # 5 was removed since
    return path, make_run(path, letters_plugins(), [10, 20, 30, 40], trainer={"best": best})


@pytest.mark.parametrize(("asked", "steps"), [("last=2", [30, 40]), ("best=3", [20, 40, 10]), ("last=1", [40])])
def test_the_average_is_the_mean_of_its_members(
    asked: str, steps: list[int], run: tuple[Path, dict[int, dict[str, torch.Tensor]]]
) -> None:
    path, weights = run
    assert main([f"run={path}", asked, "--quiet"]) == 0
    found = checkpoint.load(path / "checkpoints/average")
    exact = sum(weights[step]["embed.weight"].double() for step in steps) / len(steps)
    assert torch.equal(found.tensors["model"]["embed.weight"], exact.float())
    assert found.state == {"members": [checkpoint.step_name(step) for step in steps], "trainer": {"step": 40}}


@pytest.mark.parametrize("of", ["last", "best"])
def test_a_mean_that_validated_worse_than_the_best_is_not_decoded(of: str, tmp_path: Path) -> None:
    """A run that learns until its end: the mean of its checkpoints is behind the newest."""
    learning = ["task.valid=[a.en,a.de]", "schedule=constant", "schedule.lr=0.01", "schedule.warmup=0", "valid.every=1"]
    learning += ["valid.score=false"]  # the best is that of nll
    train_tiny(tmp_path, *learning, "checkpoint.every=1", "train.average=4", f"train.average_of={of}", "valid.best=nll")
    path = tmp_path / "runs" / "x"
    nll = {record["step"]: record["nll"] for record in records(path, "valid")}
    (end,) = records(path, "summary")
    assert min(nll, key=lambda step: nll[step]) == 4
    assert end["average"]["nll"] > nll[4]
    assert Run.load(path, "auto", load_plugins(), CPU).checkpoint_path.name == "step-000004"
    assert "worse by nll than the best, which checkpoint=auto takes" in (path / "train.log").read_text()


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = (run / "log.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def test_it_says_what_went_in_and_what_to_type_next(
    run: tuple[Path, object], capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = run
    assert main([f"run={path}", "last=2", "output=mine"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"member   {path}/checkpoints/step-000030",
        f"member   {path}/checkpoints/step-000040",
        f"average  {path}/checkpoints/mine",
        f"next     s2s-generate run={path} checkpoint=mine",
    ]


def test_generation_takes_the_average_by_itself(run: tuple[Path, object]) -> None:
    path, _ = run
    main([f"run={path}", "last=2", "--quiet"])
    assert Run.load(path, "auto", letters_plugins(), CPU).checkpoint_path.name == "average"


def test_an_average_of_before_is_not_taken_for_a_run_that_continued(run: tuple[Path, object]) -> None:
    path, _ = run
    main([f"run={path}", "best=2", "--quiet"])
    shutil.copytree(path / "checkpoints/step-000040", path / "checkpoints/step-000050")
    assert Run.load(path, "auto", letters_plugins(), CPU).checkpoint_path.name == "step-000050"
    assert Run.load(path, "average", letters_plugins(), CPU).checkpoint_path.name == "average"


def test_a_dry_run_writes_nothing(run: tuple[Path, object]) -> None:
    path, _ = run
    assert main([f"run={path}", "last=2", "--dry-run"]) == 0
    assert "average" not in names(path / "checkpoints")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give last=5 for the newest five checkpoints of the run, or best=5"),
        (["last=2", "best=2"], "give last=5"),
        (["last=5"], "has only 4 of them; the run decides by checkpoint.keep_last"),
        (["best=4"], "has only 3 of them; the run decides by checkpoint.keep_best"),
        (["last=2", "output=step-000010"], "names with step- are those of training"),
        (["last=2", "output=best"], "checkpoint=best means one that training wrote; try output=average"),
        (["last=2", "output=auto"], "checkpoint=auto means one that training wrote"),
        (["last=2", "output=../x"], "'../x' cannot name a checkpoint"),
    ],
)
def test_what_cannot_be_averaged_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, run: tuple[Path, object], capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = run
    assert main([f"run={path}", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert len(names(path / "checkpoints")) == 4


def test_a_damaged_member_is_named_and_not_left_out(
    run: tuple[Path, object], capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = run
    (path / "checkpoints/step-000030/model.safetensors").write_bytes(b"?")
    assert main([f"run={path}", "last=2"]) == 2
    assert "step-000030/model.safetensors is damaged" in capsys.readouterr().err


def test_the_members_are_json(run: tuple[Path, object]) -> None:
    path, _ = run
    main([f"run={path}", "last=2", "--quiet"])
    state = json.loads((path / "checkpoints/average/state.json").read_text())
    assert state["members"] == ["step-000030", "step-000040"]
