"""One call of s2s-train around its training: what is begun, what is recorded, and which process prints."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.small_runs import letters_config, letters_plugins
from s2s.checkpoint import directory as checkpoint
from s2s.distributed import World
from s2s.errors import CheckpointError, ConfigError, Preempted
from s2s.io.json_files import dump_checked, read_checked
from s2s.run import find_run
from s2s.training import session, stand_in
from s2s.training.planner import Planner
from s2s.training.session import dry_run, run_training
from s2s.training.signals import StopSignal
from s2s.training.trial import Timing

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.plugin import Plugins
    from s2s.training.trainer import Trainer


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugins:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    return letters_plugins()


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a trainer is asked to do, in the place of a real one; an exception in it is raised."""
    calls = list[Any]()

    def train(stop: StopSignal) -> dict[str, Any]:
        calls.append(stop)
        for error in [one for one in calls if isinstance(one, BaseException)]:
            raise error
        return {"steps": 4, "n_stale": 0}

    trainer = SimpleNamespace(train=train, facts=[], directory="x")
    monkeypatch.setattr(session, "build_trainer", lambda *_: trainer)
    monkeypatch.setattr(session, "startup_facts", lambda *_: [])
    monkeypatch.setattr("s2s_plan.planner.RunPlanner.facts", lambda *_: [])
    return calls


def run(plugins: Plugins, *arguments: str, world: World | None = None, quiet: bool = True) -> int:
    composed = letters_config(plugins, "train.steps=4", "log.tensorboard=false", *arguments)
    return run_training(composed, plugins, world or World(), StopSignal(), quiet=quiet)


def status(name: str) -> dict[str, Any]:
    found = read_checked(find_run(name) / "status.json")
    return {key: value for key, value in found.items() if key not in ("since", "sha256")}


@pytest.mark.parametrize(("arguments", "name"), [(["run=mine"], "mine"), ([], "letters-tiny")])
def test_a_run_has_the_name_that_it_is_given_or_one_of_its_own(
    plugins: Plugins, trained: list[Any], arguments: list[str], name: str
) -> None:
    assert run(plugins, *arguments) == 0
    assert len(trained) == 1
    assert status(name) == {"state": "done", "steps": 4, "n_stale": 0}
    assert find_run("last").name == name
    assert f"run: runs/{name}" in (find_run(name) / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ({"state": "done", "steps": 4}, "is finished after 4 updates; raise train.steps to go on"),
        ({"state": "done", "steps": 1200}, "is finished after 1,200 updates; raise train.steps to go on"),
        (
            {"state": "done", "steps": 2, "stopped_early": True, "n_stale": 3},
            "is finished after 2 updates; raise valid.patience to go on",
        ),
    ],
    ids=str,
)
def test_a_finished_run_is_left_as_it_is_and_says_what_would_continue_it(
    plugins: Plugins, trained: list[Any], capsys: pytest.CaptureFixture[str], before: dict[str, Any], said: str
) -> None:
    run(plugins, "run=x")
    (find_run("x") / "status.json").write_text(dump_checked({**before, "since": "then"}))
    capsys.readouterr()
    assert run(plugins, "run=x", "valid.patience=3", quiet=False) == 0
    assert said in capsys.readouterr().out
    assert len(trained) == 1
    assert status("x") == before


@pytest.mark.parametrize(
    ("n_averaged", "given", "said"),
    [
        (2, 2, ""),
        (0, 0, ""),
        (
            2,
            5,
            "; until then, train.average=5 has no effect: its average is of 2; s2s-average run=runs/x last=5 averages ",
        ),
        (
            0,
            5,
            "; until then, train.average=5 has no effect: it has no average; s2s-average run=runs/x last=5 averages ",
        ),
        (2, 0, "; until then, train.average=0 has no effect: its average is of 2"),
    ],
)
def test_a_finished_run_says_that_another_average_is_not_made(
    plugins: Plugins, trained: list[Any], capsys: pytest.CaptureFixture[str], n_averaged: int, given: int, said: str
) -> None:
    run(plugins, "run=x")
    (find_run("x") / "status.json").write_text(dump_checked({"state": "done", "steps": 4, "since": "then"}))
    if n_averaged:
        checkpoint.save(find_run("x") / "checkpoints", "average", {"model": {}}, {"members": ["step"] * n_averaged})
    capsys.readouterr()
    assert run(plugins, "run=x", f"train.average={given}", quiet=False) == 0
    printed = capsys.readouterr().out.rstrip("\n")
    assert f"raise train.steps to go on{said}" in printed
    assert said or printed.endswith("raise train.steps to go on")


def test_a_run_without_a_status_is_trained(plugins: Plugins, trained: list[Any]) -> None:
    run(plugins, "run=x")
    (find_run("x") / "status.json").unlink()
    run(plugins, "run=x")
    assert len(trained) == 2


def test_ranks_go_on_or_end_together(
    plugins: Plugins, trained: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 1 does what rank 0 says, writes nothing, and shows nothing."""
    heard = list[bool]()
    monkeypatch.setattr(World, "any_true", lambda self, flag: heard.append(flag) or True)
    assert run(plugins, "run=x", world=World(rank=1, size=2), quiet=False) == 0
    assert (heard, trained, capsys.readouterr().out) == ([False], [], "")


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (Preempted("stopped by SIGTERM", 75), "preempted", "stopped by SIGTERM"),
        (CheckpointError("disk full"), "failed", "CheckpointError: disk full"),
        (KeyboardInterrupt("odd"), "failed", "KeyboardInterrupt: odd"),
    ],
)
def test_why_a_run_ended_is_recorded(
    plugins: Plugins, trained: list[Any], error: BaseException, state: str, reason: str
) -> None:
    trained.append(error)
    with pytest.raises(type(error)):
        run(plugins, "run=x")
    assert status("x") == {"state": state, "steps": 0, "reason": reason}


def test_a_run_that_cannot_be_built_leaves_no_folder_and_last_as_it_was(
    plugins: Plugins, trained: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(plugins, "run=x")

    def fail(*_: Any) -> Any:
        raise ConfigError("no")

    monkeypatch.setattr(session, "build_trainer", fail)
    with pytest.raises(ConfigError):
        run(plugins, "run=y")
    assert find_run("last").name == "x"
    with pytest.raises(CheckpointError):
        find_run("y")


def test_a_dry_run_says_what_a_run_would_take(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the facts of the planner."""
    shown = list[tuple[str, str]]()
    trainer = SimpleNamespace(log=SimpleNamespace(show_facts=shown.extend))

    class Trial:
        def __enter__(self) -> Any:
            return trainer

        def __exit__(self, *_: object) -> None: ...

    class Forecasting(Planner):
        def facts(self, trainer: Trainer, seconds: float | None = None) -> list[tuple[str, str]]:
            return [("first", "1"), ("first", "2"), ("second", f"{seconds} s")]

    own: Any = SimpleNamespace(registry=plugins.registry)
    own.hook = SimpleNamespace(s2s_plan=lambda config, plugins: Forecasting(own))
    monkeypatch.setattr(session, "trial_run", lambda *_: Trial())
    monkeypatch.setattr(stand_in, "time_updates", lambda trainer: Timing(0.5, 0.0))
    monkeypatch.setattr("s2s.backend.core_devices.CPU.peak_memory", lambda _: 3 * 2**30)
    monkeypatch.setattr(session, "startup_facts", lambda *_: [("config", "c"), ("run", "r"), ("model", "m")])
    composed = letters_config(plugins, "train.steps=7_300", "data.prepared=here")
    assert dry_run(composed, own, World(device=torch.device("cpu"))) == 0
    assert shown == [
        ("config", "c"),
        ("model", "m"),
        ("dry run", "0.5 s an update, 01:00:50 for 7,300, 3.0 GiB so far"),
        ("first", "1"),
        ("first", "2"),
        ("second", "0.5 s"),
        ("dry run", "nothing is kept but the prepared data in here"),
    ]
