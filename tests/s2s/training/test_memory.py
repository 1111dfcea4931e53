"""One of two processes has too little memory for its part of a batch: both take smaller ones, and learn the same.

Memory that updates free returns to the system.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file

from harness.batch_size_process import train_step
from harness.folders import HARNESS
from harness.sorting_runs import outcome, records, train, train_in_ranks

if TYPE_CHECKING:
    from pathlib import Path


def test_the_processes_agree_on_smaller_parts(tmp_path: Path) -> None:
    """It fails in the middle of backward, when gradients may be on their way already."""
    common = ["arch.dropout=0", "optim=sgd", "schedule.lr=0.1", "train.steps=3", "valid.every=0", "checkpoint.every=3"]
    assert train(tmp_path / "one", *common) == 0
    codes = train_in_ranks(tmp_path / "two", 2, *common, env={1: {"MEMORY": "40"}})
    assert codes == [0, 0], (tmp_path / "two.log").read_text()
    parts = [n for (n,) in records(tmp_path / "two" / "run", "update", "micro_batches")]
    assert parts == [4, 4, 4]
    weights = [
        load_file(tmp_path / name / "run" / "checkpoints" / "step-000003" / "model.safetensors")
        for name in ("one", "two")
    ]
    for key, tensor in weights[0].items():
        assert torch.allclose(tensor, weights[1][key], atol=1e-6), key


def test_a_run_that_goes_on_remembers_how_small_the_parts_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout's draws depend on the parts, so the end has the same bytes only if they are the same; here memory would
    suffice again."""
    arguments = ["valid.every=0", "checkpoint.every=2"]
    monkeypatch.setenv("MEMORY", "40")
    assert train(tmp_path / "whole", "train.steps=6", *arguments) == 0
    assert train(tmp_path / "parts", "train.steps=3", *arguments) == 0
    monkeypatch.delenv("MEMORY")
    assert train(tmp_path / "parts", "train.steps=6", *arguments) == 0
    parts, whole = outcome(tmp_path / "parts"), outcome(tmp_path / "whole")
    assert (parts["hashes"], parts["updates"]) == (whole["hashes"], whole["updates"])
    assert {n for (n,) in records(tmp_path / "whole" / "run", "update", "micro_batches")} == {4}


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's page table")
def test_freed_memory_returns_to_the_system() -> None:
    """In a process of its own: what the heap of this one looks like depends on the tests before."""
    subprocess.run([sys.executable, "-m", "harness.memory_release"], cwd=HARNESS.parent, check=True)


def test_an_update_in_a_hundred_releases_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[int] = []
    update, pair = train_step(), ([5, 6], [7, 8])
    monkeypatch.setattr("s2s.training.train_step.release_freed_memory", lambda: released.append(step))
    for step in (1, 99, 100, 101, 200):
        update([pair], step)
    assert released == [100, 200]
