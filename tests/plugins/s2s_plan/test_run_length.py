"""train.budget during a run: it ends in time whatever the machine's speed, and repeats its decisions when continued."""

from __future__ import annotations

import random
import shutil
import time
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.tiny_runs import SMALL, train_tiny
from s2s.checkpoint import step_name
from s2s.cli.train import main
from s2s.config import Config
from s2s.config.run import ValidConfig
from s2s.distributed import World
from s2s.errors import CheckpointError
from s2s.log.log import RunLength
from s2s.training.learning_rate import following
from s2s_optim.schedules import CosineConfig, cosine
from s2s_plan import PlanConfig
from s2s_plan.budget import LENGTHS, TimeBudget, ended_after, read_points
from s2s_plan.measured_pace import Pace
from s2s_plan.planned_length import decide_steps
from s2s_plan.run_length import time_to_end

if TYPE_CHECKING:
    from collections.abc import Callable
BUDGET = 1200.0


class Ticks:
    """A clock by which the same time passes from one look to the next."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = time.monotonic(), seconds

    def monotonic(self) -> float:
        self.now += self.seconds
        return self.now


class Machine:
    """A run on a machine whose clock and speed are given."""

    def __init__(self, directory: Path, planned: int, every: int = 0) -> None:
        self.now = 100.0
        config = Config(
            train=PlanConfig(steps=planned, budget="20m"),
            valid=ValidConfig(every=every),
            schedule=CosineConfig(name="cosine", steps=planned),
        )
        self.lines: list[str] = []
        log, length = SimpleNamespace(info=self.lines.append), RunLength(planned, self.now)
        state = SimpleNamespace(step=0, seconds=0.0)
        self.trainer: Any = SimpleNamespace(
            config=config, directory=directory, log=log, length=length, state=state, world=World(), validation=every > 0
        )
        self.planned = planned

    def monotonic(self) -> float:
        return self.now

    process_time = monotonic
    """The run has a processor for itself."""

    def run(self, update: Callable[[float], float], validation: float = 0.0) -> float:
        """Train to the end; update: its seconds, after so many. The seconds that the run took."""
        valid, state, began = self.trainer.config.valid, self.trainer.state, self.now
        length = self.trainer.length
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("s2s_plan.budget.time", self)
            patch.setattr("s2s_plan.run_length.time", self)
            observer = TimeBudget(self.trainer, BUDGET, self.planned, validation)
            while state.step < length.n_steps:
                state.step += 1
                self.now += update(self.now - began)
                observer.updated({"step": state.step})
                if valid.every and (state.step % valid.every == 0 or state.step == length.n_steps):
                    self.now += validation
                    observer.validated({"step": state.step})
        return self.now - began


@pytest.mark.parametrize(
    "update",
    [
        lambda _: 0.4,
        lambda _: 0.3,
        lambda _: 0.8,
        lambda seconds: 0.4 if seconds < 600 else 0.8,
        lambda seconds: 0.8 if seconds < 600 else 0.4,
        lambda seconds: 0.4 + 0.2 * (int(seconds) // 60 % 2),
        lambda seconds: 0.4 if seconds < 1100 else 0.8,
    ],
    ids=["as planned", "quicker", "half as quick", "slower from the middle", "quicker from then", "changing", "late"],
)
@pytest.mark.parametrize("validation", [0.0, 6.0], ids=["no validation", "validated"])
def test_a_run_takes_its_budget(tmp_path: Path, update: Callable[[float], float], validation: float) -> None:
    planned = 3000 if not validation else 2700
    machine = Machine(tmp_path, planned, planned // 20 if validation else 0)
    assert machine.run(update, validation) == pytest.approx(BUDGET, rel=0.03)
    assert machine.trainer.state.step == machine.trainer.length.n_steps
    assert machine.trainer.config.train.steps == planned, "the configuration of a run stays as it began"


def test_nothing_moves_where_the_plan_was_right(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 3000)
    machine.run(lambda _: 0.4)
    assert not machine.lines
    assert {point.length for point in read_points(tmp_path)} == {3000}


def test_a_run_out_of_time_still_brings_its_schedule_to_an_end(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 1000)
    machine.run(lambda seconds: 1.2 if seconds < 600 else 10_000)
    last = read_points(tmp_path)[-1]
    assert last.length - last.step >= 12, "a quarter of an interval"


def test_a_run_that_continues_repeats_its_decisions_and_its_time_goes_on(tmp_path: Path) -> None:
    first = Machine(tmp_path, 3000)
    first.run(lambda _: 0.6)
    points = read_points(tmp_path)
    again = Machine(tmp_path, 3000)
    again.trainer.state.step = 1000
    again.run(lambda _: 0.1)
    assert read_points(tmp_path) == points
    assert again.trainer.length == first.trainer.length

    middle = max(point.step for point in points if point.step <= 1000)
    kept = [point for point in points if point.step <= middle]
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    killed = Machine(tmp_path, 3000)
    killed.run(lambda seconds: 0.6 if seconds < 0.6 * middle + 1 else 1e9)
    assert read_points(tmp_path)[: len(kept)] == kept


def test_the_time_before_an_interruption_counts(tmp_path: Path) -> None:
    def stopped(seconds: float) -> float:
        if seconds > 700:
            raise KeyboardInterrupt
        return 0.4

    first = Machine(tmp_path, 3000)
    with pytest.raises(KeyboardInterrupt):
        first.run(stopped)
    again = Machine(tmp_path, 3000)
    again.trainer.state.step = first.trainer.state.step - 1
    assert again.run(lambda _: 0.4) == pytest.approx(BUDGET - 700, rel=0.03)


def test_the_time_before_an_interruption_in_the_warm_up_counts(tmp_path: Path) -> None:
    """Also that which passed before the first update, when the corpus was read."""

    def stopped(seconds: float) -> float:
        if seconds > 100:
            raise KeyboardInterrupt
        return 0.4

    first = Machine(tmp_path, 3000)
    first.now += 200
    with pytest.raises(KeyboardInterrupt):
        first.run(stopped)
    again = Machine(tmp_path, 3000)
    again.trainer.state.step = first.trainer.state.step - 1
    assert again.run(lambda _: 0.4) == pytest.approx(BUDGET - 300, rel=0.03)


def test_only_a_run_that_reached_its_moved_end_has_ended(tmp_path: Path) -> None:
    assert ended_after(tmp_path) is None
    machine = Machine(tmp_path, 3000)
    machine.run(lambda _: 0.6)
    assert ended_after(tmp_path) is None, "it was killed before its last checkpoint"
    (tmp_path / "checkpoints" / step_name(machine.trainer.length.n_steps)).mkdir(parents=True)
    assert ended_after(tmp_path) == machine.trainer.length.n_steps < 3000


def test_a_damaged_file_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / LENGTHS).write_text("{}")
    with pytest.raises(CheckpointError, match=r"lengths.json is damaged"):
        read_points(tmp_path)


def test_a_killed_run_ends_with_the_bytes_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("s2s_plan.planning.measure_pace", lambda *_: Pace(update=49.5))
    for split in ("train", "dev"):
        for side in ("a", "b"):
            (tmp_path / f"{split}.{side}").write_text("a b c d\nc d a\nb b d\n" * 20)
    command = [
        "task=translation", "task.train=[train.a,train.b]", "task.valid=[dev.a,dev.b]", "task.vocab_size=12",
        "arch=transformer_tiny", "train.tokens=64", "schedule=cosine", "valid.score=false", "checkpoint.keep_last=50",
        "train.budget=1000s", "train.threads=1", "log.tensorboard=false",
    ]  # fmt: skip
    monkeypatch.setattr("s2s_plan.budget.time", Ticks(50.0))
    assert main([*command, "run=whole"]) == 0
    length = read_points(tmp_path / "runs" / "whole")[-1].length
    assert 6 < length < 15, "of 20 that were planned, of which each took twice as long"
    assert "instead of 20" in capsys.readouterr().out
    assert main([*command, "run=whole"]) == 0
    assert f"is finished after {length} updates" in capsys.readouterr().out

    shutil.copytree("runs/whole", "runs/killed", symlinks=True)
    checkpoints = Path("runs/killed/checkpoints")
    for step in range(6, length + 1):
        shutil.rmtree(checkpoints / step_name(step))
    monkeypatch.setattr("s2s_plan.budget.time", Ticks(20.0))
    assert main([*command, "run=killed"]) == 0
    assert "continuing after update 5" in capsys.readouterr().out
    last = Path("checkpoints") / step_name(length) / "model.safetensors"
    killed, whole = ((Path("runs") / run / last).read_bytes() for run in ("killed", "whole"))
    assert killed == whole


def test_a_budget_that_comes_late_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing has measured the length of such a run, and so nothing would keep the budget."""
    train_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main([*SMALL, "run=x", "train.budget=1s"]) == 2
    assert "train.budget=1s: runs/x began without one" in capsys.readouterr().err
    assert main([*SMALL, "run=x", "train.budget=1s", "train.steps=5", "--quiet"]) == 0


def changes(machine: Machine) -> int:
    """How often the total has changed."""
    lengths = [machine.planned, *(point.length for point in read_points(machine.trainer.directory))]
    return sum(one != other for one, other in pairwise(lengths))


def by_minutes(draw: random.Random) -> Callable[[float], float]:
    """Each minute is up to a fifth slower or quicker than another."""
    updates = [draw.uniform(0.33, 0.5) for _ in range(400)]
    return lambda seconds: updates[int(seconds // 60)]


def by_others(draw: random.Random) -> Callable[[float], float]:
    """None to four other processes on two cores, each number for up to five minutes."""
    ends, updates = [0.0], []
    while ends[-1] < 10 * BUDGET:
        ends.append(ends[-1] + draw.uniform(20, 300))
        updates.append(0.3 * max(1, (draw.randint(0, 4) + 1) / 2))
    return lambda seconds: updates[bisect_right(ends, seconds) - 1]


@pytest.mark.parametrize("load", [by_minutes, by_others])
def test_the_total_settles_and_the_run_ends_in_its_time(
    tmp_path: Path, load: Callable[[random.Random], Callable[[float], float]]
) -> None:
    """A shared machine, and a plan that was measured while it was quicker or slower."""
    counts = []
    for seed in range(8):
        draw = random.Random(seed)
        (tmp_path / str(seed)).mkdir()
        planned = int(2700 * draw.uniform(0.6, 1.7))
        machine = Machine(tmp_path / str(seed), planned, planned // 20)
        assert machine.run(load(draw), 6.0) == pytest.approx(BUDGET, rel=0.04)
        counts.append(changes(machine))
    assert sum(counts) / len(counts) <= 3
    assert max(counts) <= 4


def test_a_single_validation_has_its_time(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 1500, 1500)
    assert machine.run(lambda _: 0.6, 300.0) == pytest.approx(BUDGET, rel=0.03)
    assert changes(machine) == 0


def test_the_end_has_more_time_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a process gets a third of a processor, what follows the last validation takes three times as long."""
    monkeypatch.setattr("s2s_plan.run_length.time", SimpleNamespace(process_time=lambda: 10.0))
    assert time_to_end(30.0) == 3 * time_to_end(10.0) == 3 * time_to_end(5.0)


def test_a_rate_of_a_budgeted_run_never_rises_after_its_warm_up(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 3000)
    schedule = following(cosine, CosineConfig(name="cosine", steps=3000, warmup=300), machine.trainer.length)
    rates: list[float] = []

    def update(seconds: float) -> float:
        rates.append(schedule(machine.trainer.state.step))
        return 0.2 if int(seconds) // 200 % 2 else 0.7

    machine.run(update)
    decay = rates[rates.index(max(rates)) :]
    assert decay == sorted(decay, reverse=True)
    assert len({point.length for point in read_points(tmp_path)}) > 1, "it has moved"


def test_what_passes_before_the_first_update_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, 3000)
    machine.now += 300
    machine.run(lambda _: 0.4)
    assert machine.now - machine.trainer.length.began == pytest.approx(BUDGET, rel=0.03)
    monkeypatch.setattr("s2s_plan.run_length.time", machine)
    whole, late = (
        decide_steps(machine.trainer.config, Pace(update=1.0), BUDGET, passed).decisions[0].value
        for passed in (0.0, 300.0)
    )
    assert whole - late == 300
