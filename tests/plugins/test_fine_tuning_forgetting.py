"""What keeps a fine-tuned run from forgetting: the text of the first run or, without it, a share of its weights."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.tiny_runs import SMALL, enter_copy, train_tiny
from s2s.checkpoint import directory as checkpoint
from s2s.cli.train import main
from s2s.compose import compose
from s2s.config import Config
from s2s.errors import ConfigError
from s2s.plugin import load_plugins
from s2s.run import Run

PLUGINS = load_plugins()
OWN = ["task.train=[b.en,b.de]", "task.valid=[b.en,b.de]", "log.tensorboard=false", "--quiet"]
TUNE = ["train.init_from=x", "run=y", "train.steps=3", "checkpoint.every=1", "valid.every=1", "valid.score=false", *OWN]
WEIGHTS = [*TUNE, "train.init_replay=0"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run x, and other text."""
    folder = tmp_path_factory.mktemp("trained")
    train_tiny(folder)
    for side in ("en", "de"):
        lines = (folder / f"a.{side}").read_text().splitlines()[:10]
        (folder / f"b.{side}").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter_copy(trained, tmp_path, monkeypatch)


def log_of(run: str) -> str:
    return Path("runs", run, "train.log").read_text()


def weights(run: str, name: str) -> dict[str, torch.Tensor]:
    return checkpoint.load(Path("runs", run, "checkpoints", name), only=("model",)).tensors["model"]


def prepare_again(*corpus: str) -> None:
    """Another run of the same files, as they are now."""
    assert main([*SMALL, "train.steps=1", "run=other", "--quiet", *corpus]) == 0


def remove_text() -> None:
    for name in ("a.en", "a.de"):
        Path(name).unlink()


def change_text() -> None:
    with Path("a.en").open("a") as file:
        file.write("a dog\n")
    with Path("a.de").open("a") as file:
        file.write("ein hund\n")


def change_text_and_prepare() -> None:
    change_text()
    prepare_again()


def remove_prepared() -> None:
    shutil.rmtree("runs/prepared")


def remove_both() -> None:
    remove_text()
    remove_prepared()


def change_text_and_remove_prepared() -> None:
    change_text()
    remove_prepared()


@pytest.mark.parametrize(
    "change", [None, remove_text, remove_prepared], ids=["as it was", "only prepared", "only text"]
)
def test_the_text_of_the_first_run_is_mixed_in_by_default(here: Path, change: Any) -> None:
    """At 0.8 of an epoch; in the log of the new run."""
    if change:
        change()
    assert main([*TUNE, "train.steps=0"]) == 0
    assert "replay of runs/x: 100 pairs, 80% of an epoch" in log_of("y")
    config, _ = Run.load_task(Path("runs/y"), PLUGINS)
    assert (config.data.replay, config.train.init_weight) == ("runs/x", 0.0)
    assert not Path("runs/y/checkpoints/average").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (change_text, "a.de has changed since runs/x was trained"),
        (change_text_and_prepare, "its training text has changed since runs/x was trained"),
        (change_text_and_remove_prepared, "its training text has changed since runs/x was trained"),
        (remove_both, "a.de: no such file"),
    ],
    ids=["changed", "changed and prepared again", "changed, prepared text removed", "gone"],
)
def test_without_that_text_weights_are_mixed_and_the_reason_is_told(here: Path, change: Any, reason: str) -> None:
    change()
    assert main([*TUNE, "train.steps=1"]) == 0
    (line,) = [line for line in log_of("y").splitlines() if "its text cannot be mixed in: " in line]
    assert reason in line
    assert "65% of its weights" in line
    assert Path("runs/y/checkpoints/average").is_dir()
    assert Run.load(Path("runs/y"), "auto", PLUGINS, torch.device("cpu")).checkpoint_path.name == "average"


@pytest.mark.slow
def test_more_text_than_there_is_is_not_mixed_in(here: Path) -> None:
    """Of 25 pairs of the first run and 10 new ones, each occurs once in an epoch."""
    for side in ("en", "de"):
        lines = Path(f"a.{side}").read_text().splitlines(keepends=True)[:25]
        Path(f"few.{side}").write_text("".join(lines))
    assert (
        main([*SMALL, "task.train=[few.en,few.de]", "task.vocab_size=30", "train.steps=1", "run=few", "--quiet"]) == 0
    )
    few = [word.replace("init_from=x", "init_from=few") for word in TUNE]
    assert main([*few, "train.steps=0"]) == 0
    assert "replay of runs/few: 25 pairs, 71% of an epoch" in log_of("y")
    assert main([*few, "run=z", "train.steps=0", "train.init_replay=0.9"]) == 0
    assert "replay of runs/few: 25 pairs, 90% of an epoch" in log_of("z")


@pytest.mark.slow
def test_the_text_of_all_earlier_runs_is_mixed_in(here: Path) -> None:
    assert main([*TUNE, "train.steps=1"]) == 0
    for side in ("en", "de"):
        Path(f"c.{side}").write_text("".join(Path(f"b.{side}").read_text().splitlines(keepends=True)[:4]))
    third = ["train.init_from=y", "run=z", "task.train=[c.en,c.de]", "valid.patience=0", "log.tensorboard=false"]
    assert main([*third, "train.steps=0", "--quiet"]) == 0
    assert "replay of runs/y: 110 pairs, 80% of an epoch" in log_of("z")


def test_the_result_lies_between_the_start_and_what_was_learnt(here: Path) -> None:
    assert main([*WEIGHTS, "train.init_weight=0.3"]) == 0
    _, start = Run.read_weights(Path("runs/x"), "auto")
    learnt, mixed = weights("y", Path("runs/y/best").resolve().name), weights("y", "average")
    assert any(not torch.equal(start[name], learnt[name]) for name in start)
    for name in start:
        between = 0.3 * start[name].double() + 0.7 * learnt[name].double()
        torch.testing.assert_close(mixed[name].double(), between, rtol=0, atol=1e-6)
    assert "30% of it the weights at the start" in log_of("y")


def test_checkpoints_are_averaged_before_the_start_is_mixed_in(here: Path) -> None:
    without = [word for word in WEIGHTS if "valid" not in word]
    assert main([*without, "train.init_weight=0.5", "train.average=2"]) == 0
    members = [weights("y", name) for name in ("start", "step-000002", "step-000003")]
    for name, tensor in weights("y", "average").items():
        start, *learnt = (member[name].double() for member in members)
        torch.testing.assert_close(tensor.double(), start / 2 + sum(learnt) / 4, rtol=0, atol=1e-6)
    state = checkpoint.load(Path("runs/y/checkpoints/average"), only=()).state
    assert state["members"] == ["step-000003", "step-000002"]
    assert state["init_weight"] == 0.5


@pytest.mark.parametrize(
    "more",
    [
        [],
        pytest.param(["arch=lora"], marks=pytest.mark.slow),
        pytest.param(["train.init_vocab=extend", "data.new_tokens=5"], marks=pytest.mark.slow),
    ],
    ids=["all", "lora", "extend"],
)
def test_a_run_that_was_killed_ends_with_the_same_bytes(here: Path, more: list[str]) -> None:
    """With the first run gone meanwhile."""
    arguments = [*WEIGHTS, "train.init_weight=0.5", *more]
    assert main(arguments) == 0
    assert main([*arguments, "run=z", "train.steps=2"]) == 0
    shutil.rmtree("runs/z/checkpoints/average")
    shutil.move("runs/x", "elsewhere")
    steps = Path("runs/z/checkpoints/step-000002"), Path("runs/y/checkpoints/step-000002")
    assert all(path.is_dir() for path in steps)
    assert main([*arguments, "run=z"]) == 0
    for name in ("step-000003", "average", "start"):
        one, two = (Path("runs", run, "checkpoints", name, "model.safetensors").read_bytes() for run in "yz")
        assert one == two, name


def test_neither_is_used_where_it_is_not_asked_for_or_the_text_is_the_same(here: Path) -> None:
    for given in (["train.init_replay=0", "train.init_weight=0"], ["task.train=[a.en,a.de]"], ["train.init_vocab=new"]):
        config = compose(Config, [*[word for word in TUNE if word != "--quiet"], *given], PLUGINS).config
        assert (config.data.replay, config.train.init_weight) == ("", 0.0), given


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["train.init_from=x", "train.init_replay=most"], "train.init_replay=most must be .*, or auto"),
        (["train.init_from=x", "train.init_weight=1.5"], "train.init_weight=1.5 must be at least 0 and at most 1"),
        (["task=translation", "train.init_weight=0.1"], "train.init_weight .*give train.init_from=RUN, too"),
        (["task=translation", "train.init_replay=0.5"], "train.init_replay .*give train.init_from=RUN, too"),
    ],
)
def test_other_values_are_refused_in_one_line(here: Path, given: list[str], expected: str) -> None:
    with pytest.raises(ConfigError, match=f"^{expected}"):
        compose(Config, [*OWN[:-1], *given], PLUGINS)


def test_another_stage_on_the_same_text_mixes_in_what_the_first_one_did(here: Path) -> None:
    assert main([*TUNE, "train.steps=0"]) == 0
    config = compose(Config, ["train.init_from=y", "run=z", "log.tensorboard=false"], PLUGINS).config
    assert (config.data.replay, config.data.replay_share) == ("runs/x", 0.8)
