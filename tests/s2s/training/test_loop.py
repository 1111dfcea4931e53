"""The decisions of the training loop, each by itself, on a run that has only the parts it needs."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from s2s.backend.device_types import device_of
from s2s.config import Config, TrainConfig
from s2s.config.run import CheckpointConfig, ValidConfig
from s2s.errors import CheckpointError, Preempted
from s2s.log.log import RunLength
from s2s.training import averaging, unread
from s2s.training import trainer as loop
from s2s.training.averaging import FinalAverage
from s2s.training.state import TrainerState
from s2s.training.step_result import LaunchedUpdate, StepResult
from s2s.training.trainer import Trainer
from s2s.training.unread import UnreadUpdates

if TYPE_CHECKING:
    from collections.abc import Iterator


class Notes:
    """What is called, in its order, with the values that calls give."""

    def __init__(self, **answers: Any) -> None:
        self.called: list[str] = []
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self.called.append(name) or self.answers.get(name)


def trainer(*, state: TrainerState | None = None, config: Config | None = None, **parts: Any) -> Any:
    """A trainer with these parts and none that it would make itself."""
    one = Trainer.__new__(Trainer)
    one.config, one.state = config or Config(), state or TrainerState()
    one.world = SimpleNamespace(any_true=bool, is_main=True, size=1, device=torch.device("cpu"), barrier=lambda: None)
    one.unread = UnreadUpdates(device_of(torch.device("cpu")))
    one.ema, one.observers, one.peak_flops = None, (), 0.0
    one.length = RunLength(one.config.train.steps)
    for name, part in parts.items():
        setattr(one, name, part)
    return one


@pytest.mark.parametrize(
    ("step", "every", "due"), [(0, 5, False), (4, 5, False), (5, 5, True), (10, 5, True), (5, 0, False), (1, 1, True)]
)
def test_every_so_many_updates_and_not_before_the_first(step: int, every: int, due: bool) -> None:
    assert trainer(state=TrainerState(step=step)).is_due(every) is due


@pytest.mark.parametrize(
    ("step", "n_stale", "patience", "over"),
    [
        (9, 0, 0, False),
        (10, 0, 0, True),
        (11, 0, 0, True),
        (5, 2, 3, False),
        (5, 3, 3, True),
        (5, 4, 3, True),
        (5, 1, 1, True),
        (5, 9, 0, False),
    ],
)
def test_a_run_is_over_with_its_updates_or_its_patience(step: int, n_stale: int, patience: int, over: bool) -> None:
    config = Config(train=TrainConfig(steps=10), valid=ValidConfig(patience=patience))
    assert trainer(config=config, state=TrainerState(step=step, n_stale=n_stale)).is_over() is over


@pytest.mark.parametrize(
    ("step", "valid_step", "has_data", "due"),
    [
        (4, 2, True, True),
        (5, 4, True, False),
        (4, 4, True, False),
        (4, 2, False, False),
        (9, 8, True, True),
        (10, 8, True, True),
    ],
)
def test_a_validation_is_due_at_its_interval_and_at_the_end_once(
    step: int, valid_step: int, has_data: bool, due: bool
) -> None:
    config = Config(train=TrainConfig(steps=9), valid=ValidConfig(every=2))
    one = trainer(config=config, state=TrainerState(step=step, valid_step=valid_step), validation=has_data)
    assert one.validation_is_due() is due


@pytest.mark.parametrize(
    ("step", "minutes", "seconds", "due"),
    [(4, 0.0, 1e9, True), (5, 0.0, 1e9, False), (5, 2.0, 120.0, False), (5, 2.0, 121.0, True), (4, 2.0, 0.0, True)],
)
def test_a_checkpoint_is_due_by_updates_or_by_minutes(
    step: int, minutes: float, seconds: float, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: 1000.0 + seconds))
    config = Config(checkpoint=CheckpointConfig(every=4, minutes=minutes))
    assert trainer(config=config, state=TrainerState(step=step), saved_at=1000.0).save_is_due() is due


def result(flops: float | None = 600.0, loss: float = 1.0) -> StepResult:
    return StepResult(loss, {}, 2.0, 0.1, 20, 30, 0.0, 1, flops)


class Records:
    """An observer that keeps what it gets, and that needs the updates with these numbers at once."""

    def __init__(self, *needed: int) -> None:
        self.updates: list[Any] = []
        self.needed = needed

    def is_due(self, step: int) -> bool:
        return step in self.needed

    def updated(self, record: Any) -> None:
        self.updates.append(record)


def launched(outcome: StepResult) -> LaunchedUpdate:
    return LaunchedUpdate(torch.tensor([[outcome.loss, outcome.gnorm]]), lambda _: outcome)


def updated(monkeypatch: pytest.MonkeyPatch, outcome: StepResult, **parts: Any) -> tuple[Any, dict[str, Any]]:
    """After update 7, which took 2 s of the device and 5 s by the clock on the wall, of a batch of 3 pairs."""
    looks, device_looks = iter([10.0, 14.0, 20.0, 21.0]), iter([3.0, 5.0])
    monkeypatch.setattr("s2s.backend.core_devices.CPU.clock", lambda _: next(device_looks))
    monkeypatch.setattr(unread, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    monkeypatch.setattr("s2s.backend.core_devices.CPU.peak_memory", lambda _: 99)
    observer, state = Records(), TrainerState(step=7, epoch=2, n_tokens=100, n_bad=1, seconds=5.0)
    loader = SimpleNamespace(wait=0.25)
    one = trainer(state=state, observers=[observer], data_loader=loader, **parts)
    one.train_step = SimpleNamespace(launch=lambda *_: launched(outcome))
    one.update(["a", "b", "c"])
    return one, observer.updates[0]


def test_an_update_is_recorded_with_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    one, record = updated(monkeypatch, result(), peak_flops=1200.0)
    own = {"step": 7, "epoch": 2, "pairs": 3, "seconds": 5.0, "device_seconds": 2.0, "wait": 0.25}
    own |= {"flops": 600.0, "mfu": 0.25, "memory": 99}
    assert record == {**result().record(), **own}
    assert (one.state.n_tokens, one.state.n_bad, one.state.seconds) == (120, 0, 10.0)


@pytest.mark.parametrize(
    ("flops", "peak", "mfu", "peak_after"),
    [(600.0, 0.0, None, 0.0), (None, 1200.0, None, 1200.0), (600.0, 200.0, 1.0, 300.0), (600.0, 600.0, 0.5, 600.0)],
)
def test_a_rate_that_was_reached_is_possible(
    monkeypatch: pytest.MonkeyPatch, flops: float | None, peak: float, mfu: float | None, peak_after: float
) -> None:
    one, record = updated(monkeypatch, result(flops), peak_flops=peak)
    assert (record["mfu"], one.peak_flops) == (mfu, peak_after)


@pytest.mark.parametrize("has_ema", [True, False])
def test_a_moving_average_follows_each_update_that_counts(monkeypatch: pytest.MonkeyPatch, has_ema: bool) -> None:
    steps = list[tuple[int, bool]]()
    ema = SimpleNamespace(update=lambda step, is_finite: steps.append((step, bool(is_finite)))) if has_ema else None
    updated(monkeypatch, result(), ema=ema)
    assert steps == ([(7, True)] if has_ema else [])


def test_a_skipped_update_counts_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    skipped, counted = list[Any](), list[bool]()
    ema = SimpleNamespace(update=lambda step, is_finite: counted.append(bool(is_finite)))
    bad = result(loss=float("nan"))
    one, record = updated(monkeypatch, bad, ema=ema, record_skipped=lambda *of: skipped.append(of[0]))
    assert (one.state.n_tokens, one.state.n_bad, skipped, record["seconds"]) == (100, 1, [7], 5.0)
    assert counted == [False]


@pytest.mark.parametrize(("reached", "is_main"), [(False, True), (True, False)])
def test_too_many_skipped_updates_end_the_run_once_the_last_save_is_done(
    reached: bool, is_main: bool, tmp_path: Path
) -> None:
    heard = list[Any]()
    guard = SimpleNamespace(
        record=lambda state, step, batch, outcome, *, is_first: heard.append(is_first),
        limit_reached=lambda state: reached,
        error=lambda good: Preempted(f"good: {good}", 1),
    )
    one = trainer(nonfinite=guard, checkpoints=SimpleNamespace(folder=tmp_path))
    one.world.is_main, one.finish_save = is_main, lambda: heard.append("finished")
    if reached:
        with pytest.raises(Preempted, match="good: None"):
            one.record_skipped(7, [], result())
    else:
        one.record_skipped(7, [], result())
    assert heard == [is_main, *["finished"] * reached]


class OnDevice(LaunchedUpdate):
    """Of a device that the host has not waited for; its results are in `values`."""

    def __init__(self, outcome: StepResult) -> None:
        super().__init__(SimpleNamespace(is_cpu=False), lambda _: outcome)  # type: ignore[arg-type]


def trained(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[StepResult], **parts: Any
) -> tuple[Any, list[int], Records]:
    """After updates on a device, of which an observer needs the third at once, and how many were read at a time."""
    reads = list[int]()

    def read(updates: Any) -> list[StepResult]:
        reads.append(len(updates))
        return [update.result([]) for update in updates]

    monkeypatch.setattr(unread, "read_results", read)
    observer = Records(3)
    one = trainer(observers=[observer], data_loader=SimpleNamespace(wait=0.5), **parts)
    for step, outcome in enumerate(outcomes, 1):
        one.state.step = step
        one.train_step = SimpleNamespace(launch=lambda *_, outcome=outcome: OnDevice(outcome))
        one.update([f"pair {step}"])
    return one, reads, observer


def test_updates_are_read_when_one_is_needed_and_reported_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    one, reads, observer = trained(monkeypatch, [result(loss=loss) for loss in (1.0, 2.0, 3.0, 4.0)])
    assert reads == [3]
    assert [(record["step"], record["loss"]) for record in observer.updates] == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert one.state.n_tokens == 3 * 20
    notes = Notes()
    one.checkpoints, one.finish_save, one.observers = notes, notes.finish_save, []
    one.save(notes.write)
    assert (reads, one.state.n_tokens) == ([3, 1], 4 * 20), "a checkpoint counts all updates before it"


def test_many_updates_are_not_left_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "MAX_UNREAD", 2)
    assert trained(monkeypatch, [result()] * 5)[1] == [2, 1, 2]


def test_updates_that_are_read_together_share_their_time_by_their_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device's clock is read when it is idle: before the first, and after the read."""
    device_looks = iter([3.0, 11.0, 12.0, 14.0])
    looks = iter([0.0, 1.0, 100.0, 102.0, 200.0, 201.0, 203.0, 207.0])
    monkeypatch.setattr("s2s.backend.core_devices.CPU.clock", lambda _: next(device_looks))
    monkeypatch.setattr(unread, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    one, _, observer = trained(monkeypatch, [result(400.0), result(1200.0), result(1600.0)], peak_flops=800.0)
    assert [record["device_seconds"] for record in observer.updates] == [1.0, 3.0, 4.0]
    assert [record["seconds"] for record in observer.updates] == [1.0, 3.0, 4.0]
    assert [record["mfu"] for record in observer.updates] == [0.5] * 3
    assert one.state.seconds == 8.0


def test_updates_whose_operations_are_not_counted_share_their_time_equally(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = trained(monkeypatch, [result(None)] * 3)[2]
    assert len({record["seconds"] for record in observer.updates}) == 1


def test_a_skipped_update_has_its_own_number(monkeypatch: pytest.MonkeyPatch) -> None:
    skipped = list[Any]()
    outcomes = [result(), result(loss=float("inf")), result()]
    trained(monkeypatch, outcomes, record_skipped=lambda step, batch, _: skipped.append((step, batch)))
    assert skipped == [(2, ["pair 2"])]


@pytest.mark.parametrize(
    ("due", "among_best", "save_due", "called"),
    [
        (False, None, False, []),
        (False, None, True, ["save"]),
        (True, False, False, ["validate"]),
        (True, True, False, ["validate", "save"]),
        (True, False, True, ["validate", "save"]),
    ],
)
def test_what_is_due_is_done_and_the_best_are_saved(
    due: bool, among_best: bool | None, save_due: bool, called: list[str]
) -> None:
    notes = Notes(validate=among_best)
    one = trainer(stop=SimpleNamespace(received=None), checkpoints=SimpleNamespace(save_is_done=False, try_save=0))
    one.validation_is_due, one.save_is_due = lambda: due, lambda: save_due
    one.validate, one.save, one.finish_save = notes.validate, notes.save, notes.finish_save
    one.validate_and_save()
    assert notes.called == called
    one.checkpoints.save_is_done = True
    one.validate_and_save()
    assert notes.called == [*called, "finish_save", *called]


def test_a_signal_on_any_rank_stops_the_run_before_anything_else() -> None:
    one = trainer(stop=SimpleNamespace(received=None), preempt=lambda: Preempted("saved", 75))
    one.world.any_true = lambda flag: True
    with pytest.raises(Preempted, match="saved"):
        one.validate_and_save()


def test_a_stopped_run_is_saved_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = Notes()
    stop = SimpleNamespace(error=lambda step: Preempted(f"after {step}", 75))
    one = trainer(state=TrainerState(step=5), stop=stop, checkpoints=SimpleNamespace(save_interim="interim"))
    one.save, one.wait_for_save = lambda write: notes.called.append(write), notes.wait_for_save
    assert str(one.preempt()) == "after 5"
    assert notes.called == ["interim", "wait_for_save"]


@pytest.mark.parametrize(("is_main", "called"), [(True, ["gather", "finish_save", "write"]), (False, ["gather"])])
def test_the_first_rank_writes_what_all_gather(
    is_main: bool, called: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Notes()
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: 55.0))
    one = trainer(checkpoints=notes, finish_save=notes.finish_save)
    one.world.is_main = is_main
    one.save(notes.write)
    assert (notes.called, one.saved_at) == (called, 55.0)


@pytest.mark.parametrize("saved", [None, (Path("step-000001"), 1.5)])
def test_observers_hear_of_what_was_saved(saved: Any) -> None:
    heard = list[Any]()
    observer = SimpleNamespace(saved=lambda path, seconds: heard.append((path, seconds)))
    trainer(checkpoints=SimpleNamespace(finish_save=lambda: saved), observers=[observer]).finish_save()
    assert heard == ([saved] if saved else [])


@pytest.mark.parametrize("fails", [True, False])
def test_a_pending_save_is_finished_before_an_error_ends_the_run(fails: bool) -> None:
    """The error that ends the run is the one to report, whatever becomes of the save."""
    heard = list[str]()

    def finish_save() -> None:
        heard.append("finished")
        if fails:
            raise CheckpointError("disk full")

    one = trainer(finish_save=finish_save)
    with one.finishing_saves():
        pass
    assert heard == [], "there is another place for it where nothing fails"
    with pytest.raises(KeyboardInterrupt), one.finishing_saves():
        raise KeyboardInterrupt
    assert heard == ["finished"]


@pytest.mark.parametrize(("best", "among_best"), [([(1.0, 3), (0.5, 7)], True), ([(1.0, 3)], False)])
@pytest.mark.parametrize("has_ema", [True, False])
def test_what_is_validated_is_the_average_of_the_weights_if_there_is_one(
    best: list[tuple[float, int]], among_best: bool, has_ema: bool
) -> None:
    heard = list[Any]()

    @contextmanager
    def applied() -> Iterator[None]:
        heard.append("in")
        yield
        heard.append("out")

    def run_validation() -> Any:
        heard.append("validated")
        return SimpleNamespace(criterion=0.5, record=lambda: {"nll": 2.0})

    state: Any = SimpleNamespace(step=7, best=best, record_validation=lambda criterion, n: (criterion, n))
    observer = SimpleNamespace(validated=heard.append)
    retention = SimpleNamespace(n_best=lambda: 4)
    one = trainer(state=state, observers=[observer], checkpoints=SimpleNamespace(retention=retention))
    one.ema, one.run_validation = SimpleNamespace(applied=applied) if has_ema else None, run_validation
    assert one.validate() is among_best
    around = ["in", "validated", "out"] if has_ema else ["validated"]
    assert heard[-1].pop("seconds") >= 0
    assert heard == [*around, {"step": 7, "best": (0.5, 4), "nll": 2.0}]


def test_a_validation_that_a_signal_ends_stops_the_run() -> None:
    one = trainer(run_validation=lambda: None, preempt=lambda: Preempted("saved", 75))
    with pytest.raises(Preempted):
        one.validate()


@pytest.mark.parametrize(("step", "stopped_early"), [(9, True), (10, False)])
@pytest.mark.parametrize("average", [None, {"path": "average"}])
def test_a_finished_run_is_summed_up_for_observers_the_last_first(
    monkeypatch: pytest.MonkeyPatch, step: int, stopped_early: bool, average: dict[str, Any] | None
) -> None:
    heard = list[Any]()
    observers = [SimpleNamespace(finished=lambda summary, i=i: heard.append((i, summary))) for i in (0, 1)]
    monkeypatch.setattr(loop, "FinalAverage", lambda *_: lambda: average)
    parts = {"checkpoints": None, "validation": False, "observers": observers}
    one = trainer(config=Config(train=TrainConfig(steps=10)), state=TrainerState(step=step), **parts)
    summary = one.finish()
    assert summary == {**one.state.summary(), "stopped_early": stopped_early, "average": average}
    assert heard == [(1, summary), (0, summary)]


def final_average(folder: Path, model: torch.nn.Module, averaged: Any, validate: Any, *, is_main: bool = True) -> Any:
    """Of a run of this model whose checkpoints average to `averaged`."""
    optimizer = torch.optim.SGD(model.parameters())
    for p in model.parameters():
        p.grad = torch.ones_like(p)

    def average(state: TrainerState) -> Any:
        assert all(p.grad is None for p in model.parameters()), "their memory is needed"
        return averaged

    checkpoints: Any = SimpleNamespace(
        folder=folder,
        average=average,
        load_weights=lambda tensors, path: model.load_state_dict(tensors),
        train_step=SimpleNamespace(
            model=model, world=SimpleNamespace(any_true=bool, is_main=is_main), optimizer=optimizer
        ),
    )
    return FinalAverage(Config(), checkpoints, TrainerState(), validate, lambda: Preempted("saved", 75))


@pytest.mark.parametrize("averaged", [None, Path("average")])
@pytest.mark.parametrize("is_main", [True, False])
def test_the_first_rank_averages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, averaged: Any, is_main: bool) -> None:
    load = lambda path: SimpleNamespace(path=path, tensors={"model": {}})  # noqa: E731
    monkeypatch.setattr(averaging.checkpoint, "load", load)
    average = final_average(tmp_path, torch.nn.Linear(1, 1), averaged, None, is_main=is_main)
    assert average() == ({"path": str(tmp_path / "average")} if averaged and is_main else None)


@pytest.mark.parametrize(
    ("has_data", "best", "expected"),
    [
        (True, [(-2.0, 7), (-3.0, 8)], {"worse_by": "", "nll": 2.0}),
        (True, [(-1.9, 7)], {"worse_by": "nll", "nll": 2.0}),
        (True, [], {"worse_by": "", "nll": 2.0}),
        (False, [], {}),
    ],
)
def test_the_averaged_weights_are_validated_and_the_models_own_are_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_data: bool, best: Any, expected: dict[str, Any]
) -> None:
    """Against the best single checkpoint, by the metric by which that was chosen."""
    model, seen = torch.nn.Linear(1, 1, bias=False), list[Any]()
    torch.nn.init.constant_(model.weight, 3.0)
    mean = {"model": {"weight": torch.full((1, 1), 5.0)}}
    load_mean = lambda path: SimpleNamespace(path=path, tensors=mean, state={"members": []})  # noqa: E731
    monkeypatch.setattr(averaging.checkpoint, "load", load_mean)
    monkeypatch.setattr(averaging.checkpoint, "save", lambda folder, name, tensors, state: seen.append(state))
    result = SimpleNamespace(criterion=-2.0, record=lambda: {"nll": 2.0})
    validate = (lambda: seen.append(model.weight.item()) or result) if has_data else None
    average = final_average(tmp_path, model, tmp_path / "average", validate)
    average.state.best = best
    assert average() == {"path": str(tmp_path / "average"), **expected}
    marked = {"members": [], "worse_than_best": True}
    assert seen == [*([5.0] if has_data else []), *([marked] if expected.get("worse_by") else [])]
    assert model.weight.item() == 3.0


def test_a_signal_during_the_last_validation_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Linear(1, 1)
    load = lambda path: SimpleNamespace(path=path, tensors={"model": model.state_dict()})  # noqa: E731
    monkeypatch.setattr(averaging.checkpoint, "load", load)
    average = final_average(tmp_path, model, tmp_path / "average", lambda: None)
    with pytest.raises(Preempted, match="saved"):
        average()


@pytest.mark.parametrize("restored", [None, TrainerState(step=1200, best_metric="bleu", best=[(1.0, 4)])])
def test_a_run_goes_on_from_its_newest_checkpoint_or_begins(restored: TrainerState | None) -> None:
    said, warned, started = list[str](), list[str](), list[int]()
    log = SimpleNamespace(info=said.append, warn=warned.append, start=started.append)
    checkpoints, validation = SimpleNamespace(restore=lambda: restored), SimpleNamespace(basis="dev")
    one = trainer(log=log, checkpoints=checkpoints, validation=validation)
    fresh = one.state
    one.resume()
    assert one.state is (restored or fresh)
    assert started == [1200 if restored else 0]
    assert said == (["continuing after update 1,200"] if restored else [])
    forgotten = "valid.best was bleu and is nll: the best validations so far are forgotten"
    assert warned == ([forgotten] if restored else [])
    assert (one.state.best, one.state.best_metric, one.state.best_basis) == ([], "nll", "dev")


def test_batches_come_from_where_the_run_stands_until_it_is_over() -> None:
    one = trainer(data_loader=SimpleNamespace(iterate=lambda state, is_over: (state, is_over())))
    assert one.batches() == (one.state, False)


def test_a_training_is_resumed_updated_saved_and_finished() -> None:
    """What a signal may have skipped after the update of the checkpoint comes before the first update."""
    notes = Notes(finish={"steps": 2})
    checkpoints = SimpleNamespace(save="whole", finish_save=lambda: None)
    one = trainer(checkpoints=checkpoints, observed=nullcontext)
    for name in ("resume", "validate_and_save", "wait_for_save", "finish"):
        setattr(one, name, getattr(notes, name))
    one.batches = lambda: iter(["a", "b"])
    one.update, one.save = notes.called.append, notes.called.append
    stop: Any = SimpleNamespace(deferred=nullcontext)
    assert one.train(stop) == {"steps": 2}
    assert one.stop is stop
    each = ["a", "validate_and_save", "b", "validate_and_save"]
    assert notes.called == ["resume", "validate_and_save", *each, "whole", "wait_for_save", "finish"]


def test_a_trainer_measures_no_peak_unless_it_is_given_one(tmp_path: Path) -> None:
    world = SimpleNamespace(device=torch.device("cpu"))
    parts: Any = SimpleNamespace(world=world, ema="ema", length="length")
    one = Trainer(Config(), tmp_path, parts, parts, parts, parts, parts, parts)
    assert (one.peak_flops, one.facts, one.state, one.ema, one.world) == (0.0, (), TrainerState(), "ema", world)


def test_weights_are_whole_on_every_rank_while_they_are_validated() -> None:
    within = list[str]()

    @contextmanager
    def unsharded(model: str) -> Iterator[None]:
        within.append(model)
        yield
        within.clear()

    parts = SimpleNamespace(sharding=SimpleNamespace(unsharded=unsharded), modules={"model": "the model"})
    one = trainer(train_step=parts, stop="stop", validation=lambda stop: [stop, *within])
    assert one.run_validation() == ["stop", "the model"]
    assert within == []
