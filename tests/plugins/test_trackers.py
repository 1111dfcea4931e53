"""W&B and MLflow get what the log gets, without a network; where one is not installed, the calls that it would get."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

import s2s_mlflow
import s2s_wandb
from harness.tiny_runs import SMALL, write_corpus
from s2s import PluginError
from s2s.config import Config
from s2s.config.run import LogConfig
from s2s.log import Screen
from s2s.log.log import Log, RunLength

if TYPE_CHECKING:
    from pathlib import Path

VALID = ["task.valid=[a.en,a.de]", "valid.every=2", "valid.score=false", "log.every=2"]


def train(folder: Path, plugin: str, steps: int, **environment: str) -> None:
    """In a process of its own: trackers start threads and services, and warn in ways that are theirs."""
    command = [sys.executable, "-m", "s2s.cli.train", *SMALL, *VALID, f"plugins=[{plugin}]", f"train.steps={steps}"]
    done = subprocess.run(
        [*command, "run=x", "--quiet"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def logged(folder: Path, kind: str, key: str) -> list[tuple[int, float]]:
    """Step and value, from the run's own log."""
    records = map(json.loads, (folder / "runs" / "x" / "log.jsonl").read_text().splitlines())
    return [(r["step"], r[key]) for r in records if r.get("kind") == kind and r["step"] % 2 == 0]


def test_mlflow_has_the_run_and_goes_on_with_it(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    write_corpus(tmp_path)
    store = tmp_path / "store"
    for steps in (2, 4):
        train(tmp_path, "s2s_mlflow", steps, MLFLOW_TRACKING_URI=store.as_uri(), MLFLOW_ALLOW_FILE_STORE="true")
    (folder,) = (path.parent for path in store.glob("*/*/metrics"))
    assert (folder / "params" / "arch.d_model").read_text() == "8"
    for kind, section, key in (("update", "train", "loss"), ("valid", "valid", "nll")):
        lines = (folder / "metrics" / section / key).read_text().splitlines()
        found = [(int(step), float(value)) for _, value, step, *_ in map(str.split, lines)]
        assert found == [(step, pytest.approx(value)) for step, value in logged(tmp_path, kind, key)]


def test_wandb_writes_an_offline_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    write_corpus(tmp_path)
    train(tmp_path, "s2s_wandb", 2, WANDB_MODE="offline", WANDB_SILENT="true")
    (file,) = (tmp_path / "runs" / "x" / "wandb").glob("offline-run-*/*.wandb")
    content = file.read_bytes()
    for key in (b"train/loss", b"valid/nll", b"end/steps", b"arch.d_model"):
        assert key in content, key


def trainer(folder: Path, *, is_main: bool = True) -> Any:
    """What a tracker uses of one: 5 updates, every second of which is shown."""
    log = Log(folder, LogConfig(every=2), RunLength(5), Screen())
    world, state = SimpleNamespace(is_main=is_main), SimpleNamespace(step=5)
    return SimpleNamespace(config=Config(), directory=folder, world=world, state=state, log=log)


@pytest.mark.parametrize(("error", "code"), [(None, 0), (KeyboardInterrupt(), 1)])
def test_wandb_hears_how_training_ended(tmp_path: Path, error: BaseException | None, code: int) -> None:
    wandb = Mock()
    tracker = s2s_wandb.Tracker(trainer(tmp_path), wandb)
    for step in range(1, 6):
        tracker.updated({"step": step, "loss": 1.0, "mfu": None})
    tracker.close(error)
    run = wandb.init.return_value
    assert [call.kwargs["step"] for call in run.log.call_args_list] == [2, 4, 5]
    assert run.log.call_args.args == ({"train/loss": 1.0},)
    run.finish.assert_called_once_with(exit_code=code)


@pytest.mark.parametrize(("error", "status"), [(None, "FINISHED"), (KeyboardInterrupt(), "FAILED")])
def test_mlflow_hears_how_training_ended(tmp_path: Path, error: BaseException | None, status: str) -> None:
    mlflow = Mock()
    mlflow.start_run.return_value.info.run_id = "17"
    s2s_mlflow.Tracker(trainer(tmp_path), mlflow).close(error)
    mlflow.end_run.assert_called_once_with(status)
    assert (tmp_path / "mlflow_run_id").read_text() == "17\n"


@pytest.mark.parametrize("plugin", [s2s_wandb, s2s_mlflow])
def test_one_process_tracks_and_what_it_lacks_is_named(
    tmp_path: Path, plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plugin.s2s_observe(trainer(tmp_path, is_main=False)) is None
    monkeypatch.setitem(sys.modules, plugin.__name__.removeprefix("s2s_"), None)
    with pytest.raises(PluginError, match="pip install"):
        plugin.s2s_observe(trainer(tmp_path))
