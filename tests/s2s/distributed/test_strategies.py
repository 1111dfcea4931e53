"""What each process holds must not affect what is learnt: one process, copies and parts give the same result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file

from harness.sorting_runs import outcome, records, status, train, train_in_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SGD = [
    "arch.dropout=0",
    "optim=sgd",
    "schedule.lr=0.1",
    "valid.every=3",
    "valid.sentences=5",
    "checkpoint.every=2",
    "train.average=2",
]
FSDP = "train.strategy=fsdp"


def in_ranks(folder: Path, size: int, *arguments: str) -> None:
    assert train_in_ranks(folder, size, *arguments) == [0] * size, (folder.parent / f"{folder.name}.log").read_text()


def assert_alike(folder: Path, expected: Path, tolerance: float) -> None:
    """The same batches and checkpoints, and all numbers near each other."""
    here, there = outcome(folder), outcome(expected)
    assert [[u[0], u[1], u[6], u[7]] for u in here["updates"]] == [[u[0], u[1], u[6], u[7]] for u in there["updates"]]
    assert here["hashes"].keys() == there["hashes"].keys()
    for a, b in zip(here["valid"], there["valid"], strict=True):
        assert (a[0], a[3]) == (b[0], b[3])
        assert a[1] == pytest.approx(b[1], rel=10 * tolerance)
    assert_near(folder, expected, here["hashes"], tolerance)


def assert_near(folder: Path, expected: Path, files: Iterable[str], tolerance: float) -> None:
    """The tensors of these files, each near the other's."""
    for name in files:
        ours, theirs = (load_file(path / "run" / "checkpoints" / name) for path in (folder, expected))
        assert ours.keys() == theirs.keys()
        for key in ours:
            assert ours[key].shape == theirs[key].shape
            assert torch.allclose(ours[key], theirs[key], atol=tolerance), (name, key)


def test_parts_copies_and_one_process_learn_the_same(tmp_path: Path) -> None:
    """Six micro-batches an update, which three processes do not get alike, and a gradient that is clipped."""
    common = [*SGD, "train.steps=6", "train.clip=0.5", "train.micro_tokens=20", "train.ema=0.9", "optim.momentum=0.9"]
    assert train(tmp_path / "one", *common) == 0
    in_ranks(tmp_path / "ddp", 2, *common)
    in_ranks(tmp_path / "fsdp", 2, *common, FSDP)
    assert_alike(tmp_path / "ddp", tmp_path / "one", 1e-6)
    assert_alike(tmp_path / "fsdp", tmp_path / "one", 1e-6)


def test_copies_of_two_processes_end_with_the_bytes_of_one(tmp_path: Path) -> None:
    """With two micro-batches each gradient is a sum of two numbers, whose order does not matter."""
    common = [*SGD, "train.steps=4", "train.micro_tokens=60"]
    assert train(tmp_path / "one", *common) == 0
    in_ranks(tmp_path / "ddp", 2, *common)
    assert outcome(tmp_path / "ddp")["hashes"] == outcome(tmp_path / "one")["hashes"]


@pytest.mark.slow
def test_a_run_goes_on_with_another_strategy_and_another_number_of_processes(tmp_path: Path) -> None:
    common = [
        "arch.dropout=0",
        "schedule.lr=1e-3",
        "optim.eps=1e-3",  # where the gradient is zero, Adam follows the rounding
        "valid.every=0",
        "checkpoint.every=2",
        "train.micro_tokens=60",
        "train.ema=0.9",
    ]
    assert train(tmp_path / "one", *common, "train.steps=8") == 0
    in_ranks(tmp_path / "mixed", 2, *common, "train.steps=2", FSDP)
    assert train(tmp_path / "mixed", *common, "train.steps=4") == 0
    in_ranks(tmp_path / "mixed", 2, *common, "train.steps=6")
    in_ranks(tmp_path / "mixed", 3, *common, "train.steps=8", FSDP)
    names = [f"step-000008/{name}.safetensors" for name in ("model", "ema")]
    assert_near(tmp_path / "mixed", tmp_path / "one", names, 1e-6)
    whole, mixed = (records(tmp_path / name / "run", "update", "loss") for name in ("one", "mixed"))
    assert torch.allclose(torch.tensor(mixed), torch.tensor(whole), rtol=1e-5)


def test_processes_without_a_pair_of_their_own_change_nothing(tmp_path: Path) -> None:
    """More processes than pairs in a batch: where layers are gathered from all, the idle ones must take part."""
    common = [*SGD, "train.steps=3", "train.tokens=12", "train.micro_tokens=12", "valid.every=0"]
    assert train(tmp_path / "one", *common) == 0
    assert min(pairs for (pairs,) in records(tmp_path / "one" / "run", "update", "pairs")) < 3
    in_ranks(tmp_path / "ddp", 3, *common)
    in_ranks(tmp_path / "fsdp", 3, *common, FSDP)
    assert_alike(tmp_path / "ddp", tmp_path / "one", 1e-6)
    assert_alike(tmp_path / "fsdp", tmp_path / "one", 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_parts_in_half_precision_come_near_copies(tmp_path: Path, precision: str) -> None:
    common = [*SGD, "train.steps=6", f"train.precision={precision}"]
    in_ranks(tmp_path / "ddp", 2, *common)
    in_ranks(tmp_path / "fsdp", 2, *common, FSDP)
    assert_alike(tmp_path / "fsdp", tmp_path / "ddp", 5e-3)


def test_parts_are_continued_as_copies_and_by_one_process(tmp_path: Path) -> None:
    """The short form of the test before."""
    common = [*SGD, "optim.momentum=0.9", "valid.every=0", "train.micro_tokens=60"]
    assert train(tmp_path / "one", *common, "train.steps=4") == 0
    in_ranks(tmp_path / "mixed", 2, *common, "train.steps=2", FSDP)
    assert train(tmp_path / "mixed", *common, "train.steps=4") == 0
    names = [f"step-000004/{name}.safetensors" for name in ("model", "optim")]
    assert_near(tmp_path / "mixed", tmp_path / "one", names, 1e-6)


def test_an_update_that_is_not_finite_on_one_rank_is_skipped_by_all(tmp_path: Path) -> None:
    spoil = {1: {"SPOIL": "2"}}
    codes = train_in_ranks(tmp_path / "a", 2, "train.steps=4", "valid.every=0", env=spoil)
    assert codes == [0, 0], (tmp_path / "a.log").read_text()
    assert (tmp_path / "a.log").read_text().count("update 2 skipped") == 1
    (kept,) = (tmp_path / "a" / "run" / "bad_batches.jsonl").read_text().splitlines()
    assert json.loads(kept)["step"] == 2


def test_processes_stop_early_together(tmp_path: Path) -> None:
    arguments = ["train.steps=50", "valid.every=2", "valid.patience=2", "schedule.lr=0", "valid.sentences=5"]
    in_ranks(tmp_path / "a", 2, *arguments)
    assert (status(tmp_path / "a")["steps"], status(tmp_path / "a")["stopped_early"]) == (6, True)
