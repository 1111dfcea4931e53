"""Whole training runs: killed, stopped, spoilt, continued, and compared with an undisturbed one."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import signal
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file

from harness.sorting_runs import fork_training, kill_until_done, outcome, records, status, train, train_in_ranks
from s2s.data.batching import Batches
from s2s.training.checkpointing import CheckpointManager
from s2s.training.retention import Retention
from s2s.training.trainer import Trainer

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.training.state import TrainerState

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 updates, with checkpoints and validations, that nothing happened to."""
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    assert train(folder, *THIRTY) == 0
    return folder


THIRTY = ["train.steps=30", "checkpoint.every=3", "valid.every=6", "train.average=3"]


def hooks(path: Path, hook: str) -> list[dict[str, Any]]:
    return [r for r in map(json.loads, path.read_text().splitlines()) if r["hook"] == hook]


def test_a_run_leaves_what_is_needed_to_use_and_to_understand_it(undisturbed: Path) -> None:
    run = undisturbed / "run"
    names = {path.name for path in run.iterdir()}
    assert {"config.yaml", "resolved.yaml", "env.json", "status.json", "log.jsonl", "tokenizer", "checkpoints"} <= names
    assert json.loads((run / "status.json").read_text())["state"] == "done"
    assert (run / "last").resolve().name == "step-000030"


def test_a_finished_run_is_done_at_once(undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = outcome(undisturbed)
    assert train(undisturbed, *THIRTY) == 0
    assert "is finished after 30 updates" in capsys.readouterr().out
    assert outcome(undisturbed) == before


def test_a_run_is_repeated_by_its_configuration(undisturbed: Path, tmp_path: Path) -> None:
    from s2s.cli.train import main

    assert main(["plugins=[s2s_example]", str(undisturbed / "run" / "config.yaml"), f"run={tmp_path / 'run'}"]) == 0
    assert outcome(tmp_path) == outcome(undisturbed)


@pytest.mark.parametrize("n_kills", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_again_and_again_it_ends_with_the_same_bytes(undisturbed: Path, tmp_path: Path, n_kills: int) -> None:
    """kill -9 at random moments of start, update, validation and save, with dropout on."""
    draw = random.Random(n_kills)
    killed, seconds = 0, math.inf
    for number in itertools.count():
        folder, began = tmp_path / f"killed{number}", time.monotonic()
        codes = kill_until_done(folder, n_kills * (number > 0), 0.8 * seconds, draw, signal.SIGKILL, *THIRTY)
        if len(codes) == 1:
            seconds = min(seconds, time.monotonic() - began)  # the first run may have had less of the machine
        assert outcome(folder) == outcome(undisturbed)
        killed += codes.count(-signal.SIGKILL)
        if killed >= n_kills:
            break


@pytest.mark.parametrize("step", [18, 30])
def test_killed_between_a_save_and_its_pointers_it_ends_with_the_same_pointers(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    apply = Retention.apply

    def dying(self: Retention, name: str, state: TrainerState, interim: str) -> None:
        if state.step == step:
            os._exit(9)
        apply(self, name, state, interim)

    with monkeypatch.context() as patch:
        patch.setattr(
            Retention, "apply", lambda self, n, p, old: os._exit(9) if p.step == step else apply(self, n, p, old)
        )
        pid = fork_training(tmp_path / "killed", *THIRTY)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert train(tmp_path / "killed", *THIRTY) == 0
    assert outcome(tmp_path / "killed") == outcome(undisturbed)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130)])
def test_a_signal_saves_and_the_same_command_continues(
    undisturbed: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    folder = tmp_path / "stopped"
    pid = fork_training(folder, *THIRTY)
    _wait_for_update(folder, 4)

    os.kill(pid, number)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
    assert status(folder)["state"] == "preempted"
    assert (folder / "run" / "last").resolve().name == f"step-{status(folder)['steps']:06d}"
    assert f"stopped by {number.name} after update" in (tmp_path / "stopped.log").read_text().splitlines()[-1]
    assert train(folder, *THIRTY) == 0
    assert outcome(folder) == outcome(undisturbed)


def _wait_for_update(folder: Path, step: int) -> None:
    log, until = folder / "run" / "log.jsonl", time.monotonic() + 60
    while not (log.exists() and f'"step": {step},' in log.read_text()):
        assert time.monotonic() < until, "no update came"
        time.sleep(0.01)


def test_a_damaged_checkpoint_is_passed_over_and_it_says_so(
    undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "damaged"
    assert train(folder, "train.steps=12", *THIRTY[1:]) == 0
    weights = folder / "run" / "checkpoints" / "step-000012" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-7] ^= 4
    weights.write_bytes(content)
    assert train(folder, *THIRTY) == 0
    shown = capsys.readouterr()
    assert "passed over" in shown.err
    assert "continuing after update 9" in shown.out
    assert outcome(folder) == outcome(undisturbed)


def test_a_full_disk_does_not_end_training(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from s2s.checkpoint import directory as checkpoint
    from s2s.errors import CheckpointError

    save, n_calls = checkpoint.save, 0

    def full_at_times(*arguments: Any) -> Path:
        nonlocal n_calls
        n_calls += 1
        if n_calls in (3, 4, 5, 6):
            raise CheckpointError("no space left on device")
        return save(*arguments)

    monkeypatch.setattr(checkpoint, "save", full_at_times)
    assert train(tmp_path / "full", *THIRTY) == 0
    assert "not saved (4 of at most 5 in a row)" in capsys.readouterr().err
    assert outcome(tmp_path / "full") == outcome(undisturbed)


def test_training_goes_on_while_a_checkpoint_is_written(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first save waits for two more updates, which a run that waits for the save would never make."""
    from s2s.checkpoint import directory as checkpoint

    save, update, updates = checkpoint.save, Trainer.update, threading.Semaphore(0)
    waited: list[bool] = []

    def slow(folder: Path, name: str, *content: Any) -> Path:
        if name == "step-000003":
            waited.append(all(updates.acquire(timeout=20) for _ in range(5)))
        return save(folder, name, *content)

    def counted(self: Trainer, batch: Any) -> None:
        update(self, batch)
        updates.release()

    monkeypatch.setattr(checkpoint, "save", slow)
    monkeypatch.setattr(Trainer, "update", counted)
    assert train(tmp_path / "slow", *THIRTY) == 0
    assert waited == [True]
    assert outcome(tmp_path / "slow") == outcome(undisturbed)


def test_a_disk_that_stays_full_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from s2s.checkpoint import directory as checkpoint
    from s2s.errors import CheckpointError

    def full(*arguments: Any) -> Path:
        raise CheckpointError("no space left on device")

    monkeypatch.setattr(checkpoint, "save", full)
    assert train(tmp_path / "full", *THIRTY) == 2
    assert status(tmp_path / "full")["state"] == "failed"


def test_an_observer_gets_all_that_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCH", str(tmp_path / "heard"))
    assert train(tmp_path / "a", "train.steps=7", "checkpoint.every=3", "valid.every=2", "checkpoint.keep_best=9") == 0
    heard = tmp_path / "heard"
    assert [r["step"] for r in hooks(heard, "observe")] == [0]
    assert [r["step"] for r in hooks(heard, "update")] == [1, 2, 3, 4, 5, 6, 7]
    assert [r["step"] for r in hooks(heard, "validated")] == [2, 4, 6, 7]
    assert [r["step"] for r in hooks(heard, "saved")] == [2, 3, 4, 6, 7]
    assert [r["step"] for r in hooks(heard, "finished")] == [7]
    assert [r["error"] for r in hooks(heard, "close")] == [None]


def test_an_update_that_is_not_finite_is_skipped_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WATCH", str(tmp_path / "heard"))
    monkeypatch.setenv("SPOIL", "3 4")
    assert train(tmp_path / "a", "train.steps=6", "valid.every=0") == 0
    weights = [r["weights"] for r in hooks(tmp_path / "heard", "update")]
    assert weights[1] == weights[2] == weights[3] != weights[4]
    assert "update 4 skipped" in capsys.readouterr().err
    kept = [json.loads(line) for line in (tmp_path / "a" / "run" / "bad_batches.jsonl").read_text().splitlines()]
    assert [k["step"] for k in kept] == [3, 4]


def test_too_many_of_them_end_the_run_and_name_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPOIL", " ".join(map(str, range(5, 99))))
    assert train(tmp_path / "a", "train.steps=30", "checkpoint.every=2", "valid.every=0") == 1
    shown = capsys.readouterr().err
    assert "10 updates in a row were not finite" in shown
    assert "step-0000" in shown


def test_only_those_in_a_row_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOIL", "2 4 6")
    assert train(tmp_path / "a", "train.steps=7", "valid.every=0", "train.max_bad=2") == 0


def test_a_short_run_that_learns_nothing_does_not_end_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer updates than train.max_bad: all but the first are skipped, since it ruined the weights."""
    assert train(tmp_path / "a", "train.steps=6", "schedule.lr=1e30", "valid.every=0") == 1
    assert "3 updates in a row were not finite" in capsys.readouterr().err


def test_a_status_that_a_disk_changed_is_not_believed(tmp_path: Path) -> None:
    assert train(tmp_path / "a", "train.steps=4", "valid.every=0") == 0
    file = tmp_path / "a" / "run" / "status.json"
    text = file.read_text()
    assert '"steps": 4' in text
    file.write_text(text.replace('"steps": 4', '"steps": 6'))
    assert train(tmp_path / "a", "train.steps=6", "valid.every=0") == 0
    assert outcome(tmp_path / "a")["last"] == "step-000006"


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_never_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bad: float
) -> None:
    """They may come from a finite gradient, as with Adam and optim.eps=0."""
    step = torch.optim.Adam.step

    def spoilt(self: torch.optim.Adam, *arguments: object) -> None:
        step(self)
        self.n_steps = getattr(self, "n_steps", 0) + 1
        if self.n_steps == 5:
            next(p for group in self.param_groups for p in group["params"]).data.view(-1)[0] = bad

    monkeypatch.setattr("torch.optim.Adam.step", spoilt)
    every = ["checkpoint.every=1", "checkpoint.keep_last=2", "valid.every=0", "train.steps=30"]
    assert train(tmp_path / "a", *every) == 1
    assert "the last good checkpoint is" in (shown := capsys.readouterr().err)
    assert "step-000004" in shown
    kept = sorted((tmp_path / "a" / "run" / "checkpoints").glob("step-*"))
    assert [path.name for path in kept] == ["step-000003", "step-000004"]
    for path in kept:
        assert all(t.isfinite().all() for t in load_file(path / "model.safetensors").values())


def test_training_stops_when_validation_stops_improving(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train.steps=50", "valid.every=2", "valid.patience=3", "schedule.lr=0"]
    assert train(tmp_path / "a", *arguments) == 0
    found = status(tmp_path / "a")
    assert (found["steps"], found["stopped_early"], found["best_step"]) == (8, True, 2)
    assert train(tmp_path / "a", *arguments) == 0
    assert "is finished after 8 updates; raise valid.patience" in capsys.readouterr().out
    assert outcome(tmp_path / "a")["last"] == "step-000008"
    assert train(tmp_path / "a", *arguments[:2], "valid.patience=4", *arguments[3:]) == 0
    assert outcome(tmp_path / "a")["last"] == "step-000010"


def test_the_average_is_the_mean_of_the_last_checkpoints(tmp_path: Path) -> None:
    steps = ["train.steps=8", "checkpoint.every=2", "checkpoint.keep_last=1", "valid.every=0"]
    assert train(tmp_path / "a", *steps, "train.average=3") == 0
    folder = tmp_path / "a" / "run" / "checkpoints"
    members = [load_file(folder / f"step-00000{i}" / "model.safetensors") for i in (4, 6, 8)]
    for name, mean in load_file(folder / "average" / "model.safetensors").items():
        exact = sum(member[name].double() for member in members) / 3  # type: ignore[union-attr]
        assert torch.equal(mean, exact.float())


def test_moving_averages_are_kept_through_a_stop(tmp_path: Path) -> None:
    ema = ["train.ema=0.9", "valid.every=0", "checkpoint.every=2"]
    assert train(tmp_path / "whole", "train.steps=8", *ema) == 0
    assert train(tmp_path / "parts", "train.steps=4", *ema) == 0
    assert train(tmp_path / "parts", "train.steps=8", *ema) == 0
    parts, whole = outcome(tmp_path / "parts"), outcome(tmp_path / "whole")
    assert "step-000008/ema.safetensors" in whole["hashes"]
    assert (parts["hashes"], parts["updates"]) == (whole["hashes"], whole["updates"])


def test_another_configuration_does_not_continue_a_run(undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = outcome(undisturbed)
    assert train(undisturbed, *THIRTY, "arch.d_ff=32") == 2
    assert "arch.d_ff is 16 there and 32 here" in capsys.readouterr().err
    assert outcome(undisturbed) == before


def test_two_processes_do_not_share_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:

    folder = tmp_path / "a"
    pid = fork_training(folder, "train.steps=100000", "valid.every=0")
    _wait_for_update(folder, 2)
    assert train(folder, "train.steps=100000", "valid.every=0") == 2
    assert str(pid) in capsys.readouterr().err
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_dry_run_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "a", "train.steps=1000", "--dry-run") == 0
    assert "nothing is kept" in capsys.readouterr().out
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("size", [2, 4])
def test_ranks_learn_what_one_process_learns_from_as_many_micro_batches(tmp_path: Path, size: int) -> None:
    """1 x 32, 2 x 16, 4 x 8: the same batches and, but for the order of sums, the same gradients and verdicts."""
    sgd = ["optim=sgd", "schedule.lr=0.1", "train.steps=6", "valid.every=3", f"train.micro_tokens={120 // size}"]
    sgd += ["train.average=2", "checkpoint.every=2", "valid.sentences=7", "checkpoint.minutes=1e-9"]
    assert train(tmp_path / "one", *sgd) == 0
    assert train_in_ranks(tmp_path / "many", size, *sgd) == [0] * size, (tmp_path / "many.log").read_text()

    one, many = outcome(tmp_path / "one"), outcome(tmp_path / "many")
    batches = [[u[0], u[1], u[6], u[7]] for u in one["updates"]]
    assert [[u[0], u[1], u[6], u[7]] for u in many["updates"]] == batches
    for here, there in zip(one["valid"], many["valid"], strict=True):
        assert there == pytest.approx(here, rel=1e-6)
    if size == 2:  # one sum of two numbers: no order to choose
        assert many["hashes"] == one["hashes"]
    for name in ("last", "checkpoints/average"):
        weights = [load_file(tmp_path / who / "run" / name / "model.safetensors") for who in ("one", "many")]
        for key, expected in weights[0].items():
            assert torch.allclose(weights[1][key], expected, atol=1e-6)


def test_ranks_agree_that_a_run_is_finished_and_how_it_goes_on(tmp_path: Path) -> None:
    arguments = ["valid.every=0", "checkpoint.every=2"]
    assert train_in_ranks(tmp_path / "a", 2, "train.steps=4", *arguments) == [0, 0], (tmp_path / "a.log").read_text()
    assert train_in_ranks(tmp_path / "a", 2, "train.steps=4", *arguments) == [0, 0]
    assert "is finished after 4 updates; raise train.steps" in (tmp_path / "a.log").read_text()
    assert train_in_ranks(tmp_path / "a", 2, "train.steps=6", *arguments) == [0, 0]
    assert [step for (step,) in records(tmp_path / "a" / "run", "update", "step")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("place", ["updating 3", "validating 4"])
def test_a_signal_to_one_rank_stops_all_of_them_and_is_saved(undisturbed: Path, tmp_path: Path, place: str) -> None:
    arguments = [*THIRTY, "train.steps=7", "valid.every=2"]
    assert train_in_ranks(tmp_path / "whole", 2, *arguments) == [0, 0]
    codes = train_in_ranks(tmp_path / "parts", 2, *arguments, env={1: {"SIGNAL": f"TERM {place}"}})
    assert codes == [75, 75], (tmp_path / "parts.log").read_text()
    assert status(tmp_path / "parts")["steps"] == int(place[-1])
    assert train_in_ranks(tmp_path / "parts", 2, *arguments) == [0, 0]
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


def test_a_rank_that_fails_ends_the_others_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run").write_text("no directory")
    assert train_in_ranks(tmp_path / "a", 2, "train.steps=4") == [2, 1]
    said = (tmp_path / "a.log").read_text().splitlines()
    assert [line for line in said if line.startswith("s2s-train: error: run directory")]
    assert [line for line in said if line.startswith("s2s-train: error: another process of this run has ended")]
    assert not any("Traceback" in line for line in said)


def test_ranks_that_see_different_checkpoints_do_not_train(tmp_path: Path) -> None:
    """As on machines that do not share a file system."""
    from s2s.errors import CheckpointError

    world = SimpleNamespace(all_gather=lambda found: [found, [0, ""]])
    checkpoints = SimpleNamespace(folder="x", train_step=SimpleNamespace(world=world))
    with pytest.raises(CheckpointError, match=r"after updates \[8, 0\]"):
        CheckpointManager.check_same(checkpoints, 8, "x")  # type: ignore[arg-type]


def test_data_that_do_not_come_end_the_run_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, gate = Batches.pairs, threading.Event()

    def hanging(self: Batches, rows: Any) -> Any:
        n_calls.append(1)
        if len(n_calls) == 11:  # the first of two parts of the sixth batch
            gate.wait(60)
        return pairs(self, rows)

    n_calls: list[int] = []
    monkeypatch.setattr(Batches, "pairs", hanging)
    arguments = ["train.steps=30", "valid.every=0", "checkpoint.every=2"]
    assert train(tmp_path / "a", *arguments, "data.timeout=2") == 2
    gate.set()
    (line,) = capsys.readouterr().err.splitlines()
    assert "no batch came for 2 s after update 5" in line
    assert (tmp_path / "a" / "run" / "last").resolve().name == "step-000004"


def test_an_update_takes_what_the_clock_says_and_the_run_their_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock goes on by 1, 2, 4, … s while an update is made, and again while it is read, and by 1000 s between
    updates."""
    update, now, step = Trainer.update, [0.0], [0]

    def timed(self: Trainer, batch: Any) -> None:
        step[0] += 1
        now[0] += 1000.0
        update(self, batch)

    def monotonic() -> float:
        now[0] += 2.0 ** (step[0] - 1)
        return now[0]

    monkeypatch.setattr("s2s.training.unread.time", SimpleNamespace(monotonic=monotonic))
    monkeypatch.setattr(Trainer, "update", timed)
    assert train(tmp_path / "a", "train.steps=4", "valid.every=0") == 0
    assert records(tmp_path / "a" / "run", "update", "seconds") == [[2.0], [4.0], [8.0], [16.0]]
    assert status(tmp_path / "a")["seconds"] == 30.0
