"""s2s-train as its users call it: third-party plugins, their own files, and edge cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.folders import HARNESS, ROOT
from harness.sorting_runs import records
from s2s.cli.train import main
from s2s.compose.yaml12 import read_file

STRANGER = HARNESS / "third_party_plugin.py"
SMALL = [
    f"plugins=[{STRANGER}]", "task=reversing", "task.file=words.txt", "arch=transformer_tiny", "arch.d_model=16",
    "arch.d_ff=16", "arch.n_heads=2", "schedule=sawtooth", "optim=signs", "objective=focal", "search=greedy",
    "train.tokens=60", "train.steps=6", "valid.every=2", "valid.best=exact", "checkpoint.every=2",
    "log.tensorboard=false", "train.threads=1",
]  # fmt: skip
"""A run of which everything but the model and the search is a stranger's."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs lie under the working directory, beside their data."""
    monkeypatch.chdir(tmp_path)
    write_words("abc bcde cab ddeeff ghi ab")


def write_words(words: str) -> None:
    Path("words.txt").write_text(words.replace(" ", "\n") + "\n")


def run(*arguments: str) -> int:
    return main([*SMALL, *arguments])


def weights(name: str) -> bytes:
    return (Path("runs") / name / "last" / "model.safetensors").read_bytes()


def test_a_run_learns_with_what_a_stranger_registered(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run=whole", "optim.decay=0.25", "schedule.length=3") == 0
    assert "exact 0.00 (greedy)" in capsys.readouterr().out
    assert rates("whole") == pytest.approx([0.01 / 3, 0.02 / 3, 0.01] * 2)
    assert records(Path("runs/whole"), "valid", "signatures") == [[{"exact": "exact|v:1"}]] * 3


def rates(name: str) -> list[float]:
    return [lr for (lr,) in records(Path("runs") / name, "update", "lr")]


def test_the_metric_of_the_best_checkpoint_is_checked_before_data_are_prepared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("run=a", "valid.best=exat") == 2
    assert "valid.best=exat is not among the values of validation. Did you mean 'exact'?" in capsys.readouterr().err
    assert not Path("runs/prepared").exists()


def test_a_strangers_optimizer_continues_where_it_stood() -> None:
    assert run("run=whole") == 0
    assert run("run=parts", "train.steps=3") == 0
    assert run("run=parts") == 0
    assert weights("parts") == weights("whole")


def test_a_run_is_continued_by_its_configuration_also_when_it_was_not_named() -> None:
    assert run("train.steps=3") == 0
    folder = Path("runs/reversing-transformer_tiny")
    plugins = f"plugins=[{STRANGER}]"
    assert main([plugins, str(folder / "config.yaml"), "train.steps=4"]) == 0
    assert main([plugins, str(folder / "resolved.yaml"), "train.steps=5"]) == 0
    assert main([*SMALL, "run=last"]) == 0
    assert len(rates(folder.name)) == 6
    assert [path.name for path in Path("runs").iterdir() if path.name != "prepared"] == [folder.name, "last"]


def test_other_training_data_under_the_same_symbols_do_not_continue_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run=a", "train.steps=3") == 0
    write_words("abc bcde cab ddeeff ghi ba")
    assert run("run=a") == 2
    message = capsys.readouterr().err
    assert "runs/a was trained on the data " in message
    assert "restore the previous files, or give another run=…" in message
    assert status_of("a")["state"] == "failed"
    write_words("abc bcde cab ddeeff ghi ab")
    assert run("run=a") == 0


def status_of(name: str) -> dict[str, Any]:
    return json.loads((Path("runs") / name / "status.json").read_text())


def test_a_corpus_smaller_than_a_batch_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train.tokens=100_000") == 0
    assert status_of("last")["epochs"] == 5


def test_epochs_without_a_pair_are_passed_over() -> None:
    write_words("ab abc")
    assert run("task.weight=0.2", "train.steps=3") == 0
    assert status_of("last")["steps"] == 3


def test_a_task_without_a_development_set_is_told_so_and_trains(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["task.judged=false", "valid.best=nll"]
    assert run("run=a", *given, "train.average=2") == 0
    assert "no development set is given" in capsys.readouterr().out
    assert not Path("runs/a/best").exists()
    assert Path("runs/a/checkpoints/average").is_dir()
    assert run("run=b", *given, "valid.patience=2") == 2
    assert run("run=b", *given, "train.average=2", "train.average_of=best") == 2
    assert capsys.readouterr().err.count("needs a development set, and task=reversing has none") == 2
    assert run("run=b", "valid.patience=2", "valid.every=0") == 2
    assert "give valid.every=…, too" in capsys.readouterr().err


def test_a_development_set_that_is_gone_ends_a_run_before_its_first_update(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("run=a", "train.steps=1") == 0
    Path("words.txt").unlink()
    assert run("run=b") == 2
    assert "words.txt" in capsys.readouterr().err
    assert not list(Path("runs/b/checkpoints").glob("step-*"))


def test_no_updates_give_the_first_weights() -> None:
    assert run("train.steps=0") == 0
    assert status_of("last") | {"since": "", "sha256": ""} == {
        "state": "done", "since": "", "sha256": "", "steps": 0, "epochs": 0, "tokens": 0, "seconds": 0.0,
        "stopped_early": False, "n_stale": 0, "best_step": None, "average": None,
    }  # fmt: skip
    assert run() == 0
    assert status_of("last")["steps"] == 6


def test_fewer_updates_than_there_are_leave_the_run_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run=a") == 0
    before = weights("a")
    assert run("run=a", "train.steps=3") == 0
    assert "is finished after 6 updates" in capsys.readouterr().out
    assert weights("a") == before


def test_without_validations_on_the_way_the_last_update_is_judged_and_the_best() -> None:
    assert run("run=a", "valid.every=0", "checkpoint.every=3") == 0
    assert Path("runs/a/best").resolve().name == "step-000006"
    assert status_of("a")["best_step"] == 6


def test_another_measure_forgets_what_was_best(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run=a", "train.steps=4") == 0
    assert run("run=a", "valid.best=nll") == 0
    assert "valid.best was exact and is nll" in capsys.readouterr().err
    assert status_of("a")["best_step"] == 6


def test_the_last_updates_are_not_lost_to_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from s2s.checkpoint import directory as checkpoint
    from s2s.errors import CheckpointError

    def full(*_: Any) -> Path:
        raise CheckpointError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", full)
        assert run("run=a", "valid.every=0", "checkpoint.every=0") == 2
    assert "error: no space left on device" in capsys.readouterr().err
    assert status_of("a")["state"] == "failed"
    assert run("run=a") == 0


def test_what_is_damaged_is_left_out_of_the_average(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run=a", "train.steps=4", "checkpoint.keep_last=9") == 0
    weights = Path("runs/a/checkpoints/step-000002/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])
    assert run("run=a", "train.average=3", "checkpoint.keep_last=9") == 0
    assert "not averaged: runs/a/checkpoints/step-000002/model.safetensors is damaged" in capsys.readouterr().err
    state = json.loads(Path("runs/a/checkpoints/average/state.json").read_text())
    assert state["members"] == ["step-000006", "step-000004"]


def test_what_was_passed_over_as_damaged_does_not_push_out_what_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from s2s.checkpoint import directory as checkpoint

    assert run("run=a") == 0
    newest = Path("runs/a/checkpoints/step-000006/model.safetensors")
    newest.write_bytes(newest.read_bytes()[:-1])
    kept, prune = [], checkpoint.prune
    monkeypatch.setattr(checkpoint, "prune", lambda folder, keep: [kept.append(keep), prune(folder, keep)])
    assert run("run=a", "train.steps=7", "valid.every=7", "checkpoint.every=5", "checkpoint.keep_last=1") == 0
    assert "step-000005" in kept[0]
    assert Path("runs/a/last").resolve().name == "step-000007"


def test_a_dry_run_of_the_built_in_corpus_says_what_it_would_take(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["task=translation_tiny", "task.pairs=300", "arch=transformer_tiny", "train.tokens=500"]
    assert main([*arguments, "train.steps=1000", "search=greedy", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "s an update, " in shown
    assert "first checkpoint after " in shown
    assert [path.name for path in Path("runs").iterdir()] == ["prepared"]


def asked_for(experiment: str) -> list[str]:
    """What a preset or its bases leave to the user, given."""
    preset = read_file(ROOT / "configs" / "experiment" / f"{experiment}.yaml")
    of_task = preset.get("task", {})
    given = [f"task.{key}=a" for key, value in of_task.items() if value == "???"]
    given += ["task.treebank=wsj"] if of_task.get("synthetic") is False else []
    return given + (asked_for(preset["base"]) if "base" in preset else [])


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "configs" / "experiment").glob("*.yaml")))
def test_the_configuration_of_every_experiment_can_be_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"experiment={name}", *asked_for(name), "--print-config"]) == 0
    assert f"# preset experiment={name}" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, at its own import
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_compiled_model_learns_what_the_plain_one_does(precision: str) -> None:
    """torch.compile needs a C++ compiler on the CPU, and some ten seconds."""
    common = [f"train.precision={precision}", "optim=sgd", "schedule=constant", "schedule.warmup=0", "arch.dropout=0"]
    common += ["train.steps=4", "valid.every=0", "valid.score=false", "valid.best=nll"]
    assert run("run=plain", *common) == 0
    assert run("run=compiled", *common, "train.compile=true") == 0
    plain, compiled = ([x for (x,) in records(Path("runs") / name, "update", "loss")] for name in ("plain", "compiled"))
    assert compiled == pytest.approx(plain, rel=1e-5 if precision == "fp32" else 1e-2)


def test_a_run_that_is_refused_leaves_no_folder_and_is_not_the_last(tmp_path: Path) -> None:
    Path("runs").mkdir()
    (tmp_path / "empty").write_text("")
    arguments = ["task=translation", f"task.train=[{tmp_path}/empty,{tmp_path}/empty]", "arch=transformer_tiny"]
    assert main([*arguments, "run=refused"]) == 2
    assert not Path("runs/refused").exists()
    assert not Path("runs/last").is_symlink()
    Path("runs/mine").mkdir()
    (Path("runs/mine") / "notes").write_text("what was there before stays")
    assert main([*arguments, "run=mine"]) == 2
    assert (Path("runs/mine") / "notes").exists()
