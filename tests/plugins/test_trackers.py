"""W&B and MLflow get what the log gets, without a network; each is skipped where it is not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tiny_runs import SMALL, write_corpus

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
