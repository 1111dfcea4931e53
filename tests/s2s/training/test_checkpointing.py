"""What is saved, when it is written again, how a failed save is handled, and what is restored."""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.small_runs import build, letters_config, letters_plugins
from s2s.checkpoint import directory as checkpoint
from s2s.config import Config, TrainConfig
from s2s.distributed import World
from s2s.errors import CheckpointError
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.task import Vocab
from s2s.training import checkpointing
from s2s.training.checkpointing import MAX_FAILED_SAVES, MAX_SPLIT, CheckpointManager
from s2s.training.ema import EMA
from s2s.training.retention import Retention
from s2s.training.state import TrainerState
from s2s.training.train_step import TrainStep

if TYPE_CHECKING:
    from pathlib import Path

PLUGINS = letters_plugins()
VOCAB = Vocab(src=7, tgt=7, joint=True)


class Warnings:
    """A log of warnings alone."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)


def manager(folder: Path, *, ema: float | None = None, average: int = 0) -> CheckpointManager:
    """Of a run with a small model that has made an update."""
    config, log = Config(train=TrainConfig(average=average)), Warnings()
    torch.manual_seed(0)
    model = build(letters_config(PLUGINS), PLUGINS, folder / "prepared")
    objective, optimizer = LabelSmoothed(LabelSmoothedConfig()), torch.optim.Adam(model.parameters())
    update = TrainStep(config.train, 1, VOCAB, model, objective, optimizer, lambda _: 0.1, World())
    update([([4, 5], [6])], step=1)
    moving = EMA(model, ema) if ema else None
    places: Any = folder / "checkpoints", log
    return CheckpointManager(config, places[0], update, moving, places[1], Retention(config, *places))


def saved(own: CheckpointManager, step: int, how: str = "save", **state: Any) -> Path | None:
    """Save and wait; the path, if anything was written."""
    getattr(own, how)(TrainerState(step=step, **state), own.gather({}))
    done = own.finish_save()
    return done and done[0]


def names(own: CheckpointManager) -> list[str]:
    return [path.name for path in checkpoint.steps(own.folder)]


def test_what_is_restored_is_what_was_saved(tmp_path: Path) -> None:
    own, other = manager(tmp_path, ema=0.5), manager(tmp_path / "other", ema=0.5)
    own.train_step.split_factor = 4
    with torch.no_grad():
        for p in (*own.train_step.model.parameters(), *own.ema.mean.values()):  # type: ignore[union-attr]
            p.add_(torch.rand_like(p))
    saved(own, 7, n_tokens=30, best=[(-1.0, 5)])
    other.folder = own.folder
    state = other.restore()
    assert state == other.saved == TrainerState(step=7, n_tokens=30, best=[(-1.0, 5)])
    assert state is not other.saved, "the run goes on with the one, and the other stays"
    assert (other.train_step.split_factor, other.interim) == (4, "")
    for one, two in zip(own.gather({}).tensors.values(), other.gather({}).tensors.values(), strict=True):
        assert all(torch.equal(one[name], two[name]) for name in one.keys() | two.keys())
    assert own.gather({}).tensors.keys() == {"model", "optim", "ema"}


class Halves(torch.optim.SGD):
    """SGD with a moment in bf16 and a count of 64 bits, neither of which is of the weights' type."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state.setdefault("moment", torch.zeros_like(p, dtype=torch.bfloat16)).add_(p.grad)
            state.setdefault("seen", torch.tensor(1 << 40)).add_(1)


def test_an_optimizer_s_state_keeps_its_types(tmp_path: Path) -> None:
    own, other = manager(tmp_path), manager(tmp_path / "other")
    for one in (own, other):
        one.train_step.optimizer = Halves(one.train_step.model.parameters(), lr=0.0)
    for p in own.train_step.parameters:
        p.grad = torch.ones_like(p)
    own.train_step.optimizer.step()
    saved(own, 1)
    other.folder = own.folder
    other.restore()
    for p in other.train_step.parameters:
        state = other.train_step.optimizer.state[p]
        assert (state["moment"].dtype, int(state["seen"])) == (torch.bfloat16, (1 << 40) + 1)


@pytest.mark.parametrize("n_available", [0, 1 << 40])
def test_where_memory_is_scarce_training_waits_and_nothing_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_available: int
) -> None:
    own, begin, places = manager(tmp_path), threading.Event(), list[int]()
    monkeypatch.setattr(checkpointing, "available_memory", lambda: SimpleNamespace(n_bytes=n_available))
    save = checkpoint.save

    def waits(folder: Path, name: str, tensors: Any, state: Any) -> Path:
        if n_available:
            begin.wait()
        places.extend(tensor.data_ptr() for group in tensors.values() for tensor in group.values())
        return save(folder, name, tensors, state)

    monkeypatch.setattr(checkpoint, "save", waits)
    content = own.gather({})
    then = {name: tensor.clone() for name, tensor in content.tensors["model"].items()}
    own.save(TrainerState(step=1), content)
    assert own.save_is_done == (not n_available)
    for p in own.train_step.parameters:  # the next update
        p.data.zero_()
    begin.set()
    own.finish_save()
    assert all(torch.equal(then[n], t) for n, t in checkpoint.load(own.folder / "step-000001").tensors["model"].items())
    originals = {tensor.data_ptr() for group in content.tensors.values() for tensor in group.values()}
    assert (originals == set(places)) == (not n_available)


def test_without_a_checkpoint_nothing_is_restored(tmp_path: Path) -> None:
    own: Any = manager(tmp_path)
    assert (own.restore(), own.saved, own.interim, own.n_failed, own.log.texts) == (None, None, "", 0, [])
    saved(own, 1)
    saved(own, 2)
    for name in names(own):
        (own.folder / name / "state.json").write_text("?")
    assert own.restore() is None
    passed, again, anew = own.log.texts
    assert passed.startswith("checkpoint passed over: ")
    assert again.startswith("checkpoint passed over: ")
    assert anew == f"no checkpoint in {own.folder} is valid: the run begins anew"


def test_the_same_state_is_written_once_unless_it_is_gone(tmp_path: Path) -> None:
    own = manager(tmp_path)
    assert saved(own, 3) == own.folder / "step-000003"
    assert saved(own, 3) is None
    assert saved(own, 3, n_tokens=1) is not None, "another state of the same step"
    checkpoint.prune(own.folder, [])
    assert saved(own, 3, n_tokens=1) is not None


def test_a_checkpoint_of_a_signal_goes_with_the_next_one(tmp_path: Path) -> None:
    own = manager(tmp_path)
    saved(own, 2)
    assert saved(own, 3, "save_interim") is not None
    assert own.interim == "step-000003"
    assert saved(own, 3, "save_interim") is None
    other = manager(tmp_path)
    other.restore()
    assert other.interim == "step-000003", "also where the run goes on in another process"
    for one in (own, other):
        saved(one, 4)
        assert (one.interim, names(one)) == ("", ["step-000002", "step-000004"])
        checkpoint.prune(one.folder, ["step-000002"])
        saved(one, 3, "save_interim")


def test_a_checkpoint_of_a_signal_that_is_due_stays(tmp_path: Path) -> None:
    own = manager(tmp_path)
    saved(own, 3, "save_interim")
    assert saved(own, 3) is None
    assert own.interim == ""
    saved(own, 4)
    assert names(own) == ["step-000003", "step-000004"]


def test_a_save_goes_on_beside_training_and_takes_what_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, gate = iter([10.0, 13.5]), threading.Event()
    monkeypatch.setattr(checkpointing, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    save = checkpoint.save
    monkeypatch.setattr(checkpoint, "save", lambda *of: gate.wait(20) and save(*of))
    own = manager(tmp_path)
    assert not own.save_is_done
    assert own.finish_save() is None
    own.save(TrainerState(step=1), own.gather({}))
    assert not own.save_is_done
    gate.set()
    assert own.pending is not None
    own.pending.job.result()
    assert own.save_is_done
    assert own.finish_save() == (own.folder / "step-000001", 3.5)
    assert not own.save_is_done


def test_a_save_that_may_fail_is_tried_again_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = manager(tmp_path)
    saved(own, 1)
    saved(own, 2)

    def fail(*_: Any) -> Path:
        raise CheckpointError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", fail)
        assert saved(own, 3, "try_save") is None
        assert own.log.texts == ["not saved (1 of at most 5 in a row): disk full"]
        assert names(own) == ["step-000002"], "room was made"
        for how in ("save", "save_interim"):
            with pytest.raises(CheckpointError, match="disk full"):
                saved(own, 3, how)
    saved(own, 4, "try_save")
    assert own.n_failed == 0
    monkeypatch.setattr(checkpoint, "save", fail)
    for _ in range(MAX_FAILED_SAVES - 1):
        assert saved(own, 5, "try_save") is None
    with pytest.raises(CheckpointError, match="disk full"):
        saved(own, 5, "try_save")
    assert (own.n_failed, own.pending) == (5, None)


def changed(own: CheckpointManager, **values: Any) -> None:
    """Save update 1 with other values in state.json."""
    own.save(TrainerState(step=1), own.gather({}))
    own.finish_save()
    found = checkpoint.load(own.folder / "step-000001")
    state = json.loads(json.dumps({**found.state, **values}))
    checkpoint.save(own.folder, "step-000001", found.tensors, {k: v for k, v in state.items() if v != "gone"})


@pytest.mark.parametrize("split_factor", [1, 2, MAX_SPLIT])
def test_a_batch_that_was_split_is_split_again(tmp_path: Path, split_factor: int) -> None:
    own = manager(tmp_path)
    changed(own, split_factor=split_factor)
    own.restore()
    assert own.train_step.split_factor == split_factor
    assert MAX_SPLIT == 1_048_576


@pytest.mark.parametrize(
    "values",
    [
        *({"split_factor": n} for n in (0, -1, MAX_SPLIT + 1, 2.0, True, "2")),
        {"trainer": {"step": -1}},
        {"optim": "gone"},
    ],
    ids=str,
)
def test_what_another_version_saved_is_said_to_be(tmp_path: Path, values: dict[str, Any]) -> None:
    own = manager(tmp_path)
    changed(own, **values)
    with pytest.raises(CheckpointError, match=r"step-000001 is whole, but not what this version of s2s saves \("):
        own.restore()


def test_an_optimizer_with_other_groups_is_not_what_was_saved(tmp_path: Path) -> None:
    own = manager(tmp_path)
    saved(own, 1)
    optimizer = own.train_step.optimizer
    extra = torch.nn.Parameter(torch.zeros(1))
    optimizer.add_param_group({"params": [extra]})
    with pytest.raises(CheckpointError, match="is whole, but not what this version of s2s saves"):
        own.restore()


@pytest.mark.parametrize("ema", [None, 0.5])
def test_room_for_weights_moments_and_averages_is_asked_for_before_the_first_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ema: float | None
) -> None:
    own, asked = manager(tmp_path, ema=ema), list[int]()
    monkeypatch.setattr(checkpoint, "check_space", lambda folder, needed: asked.append(needed))
    own.restore()
    weights = sum(p.nbytes for p in own.train_step.model.parameters())
    assert asked == [(4 if ema else 3) * weights]


def test_the_average_is_that_of_the_checkpoints_that_are_kept(tmp_path: Path) -> None:
    own = manager(tmp_path, average=2)
    assert own.average(TrainerState()) is None
    weight = next(iter(own.train_step.model.parameters()))
    for step in (1, 2, 3):
        torch.nn.init.constant_(weight, float(step))
        saved(own, step)
    state = TrainerState(step=3)
    assert own.average(state) == own.folder / "average"
    found = checkpoint.load(own.folder / "average")
    assert next(iter(found.tensors["model"].values())).eq(2.5).all()
    assert found.state["members"] == ["step-000003", "step-000002"]
    assert TrainerState.from_json(found.state["trainer"]) == copy.deepcopy(state)


@pytest.mark.parametrize(("steps", "same"), [([8], True), ([8, 8], True), ([0, 0, 0], True), ([8, 0], False)])
def test_all_processes_are_at_one_step(tmp_path: Path, steps: list[int], same: bool) -> None:
    own = manager(tmp_path)
    own.train_step.world = SimpleNamespace(all_gather=lambda _: [[step, "x"] for step in steps])  # type: ignore[assignment]
    if same:
        own.check_same(steps[0], "x")
    else:
        with pytest.raises(CheckpointError, match=r"found different checkpoints in .* \(after updates \[8, 0\]\)"):
            own.check_same(8, "x")


def test_all_processes_read_one_checkpoint(tmp_path: Path) -> None:
    own = manager(tmp_path)
    own.train_step.world = SimpleNamespace(all_gather=lambda one: [one, [8, "y"]])  # type: ignore[assignment]
    own.check_same(8, "y")
    with pytest.raises(CheckpointError, match=r"found different checkpoints in .* \(after updates \[8, 8\]\)"):
        own.check_same(8, "x")


def test_a_process_without_a_checkpoint_is_at_the_beginning(tmp_path: Path) -> None:
    own, told = manager(tmp_path), list[list[object]]()
    own.train_step.world = SimpleNamespace(all_gather=lambda found: told.append(found) or [found])  # type: ignore[assignment]
    own.restore()
    saved(own, 6)
    own.restore()
    manifest = (own.folder / "step-000006" / "MANIFEST.json").read_bytes()
    assert told == [[0, ""], [6, hashlib.sha256(manifest).hexdigest()]]
