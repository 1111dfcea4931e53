"""The seconds of an update, on a machine whose clock advances by the cost of each update."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from s2s.data.lazy_batch import split
from s2s.training import trial
from s2s.training.micro_batches import n_tokens_of
from s2s.training.trial import PARTS, Timing, time_updates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.data.pairs import Pair


class Machine:
    """A trainer whose update takes `step` seconds and `token` for each token of both sides; 7 operations a token."""

    def __init__(
        self, n_pairs: Sequence[int], step: float, token: float, *, counts: bool = True, others: float = 0.0
    ) -> None:
        """others: seconds that other processes take of the machine for each second of this one."""
        self.n_pairs, self.cost, self.counts, self.others = n_pairs, (step, token), counts, others
        self.now, self.busy, self.updates = 100.0, 0.0, list[tuple[int, int]]()
        self.world = SimpleNamespace(any_true=bool, device=None)
        self.state = SimpleNamespace(step=0)

    def batches(self) -> list[list[Pair]]:
        return [[([4, 5, 6], [7, 8])] * n for n in self.n_pairs]  # with eos, 7 tokens a pair

    def train_step(self, batch: Sequence[Pair], step: int) -> Any:
        n_src, n_tgt = n_tokens_of(batch)
        seconds = self.cost[0] + self.cost[1] * (n_src + n_tgt)
        self.busy += seconds
        self.now += seconds * (1 + self.others)
        self.updates.append((len(batch), step))
        flops = 7.0 * (n_src + n_tgt) if self.counts else None
        return SimpleNamespace(n_tokens=n_tgt, n_src_tokens=n_src, flops=flops)

    def monotonic(self) -> float:
        return self.now

    def clock(self) -> float:
        return self.busy


def timed(machine: Machine, monkeypatch: pytest.MonkeyPatch, enough: float = 3.0) -> Timing:
    monkeypatch.setattr(trial, "time", machine)
    monkeypatch.setattr(trial, "device_of", lambda _: machine)
    return time_updates(machine, enough)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_main", [True, False])
def test_a_trial_is_shown_by_the_first_process_and_leaves_no_folder(
    is_main: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config: Any = SimpleNamespace(log="log", train=SimpleNamespace(steps=7, threads=0))
    plugins: Any = SimpleNamespace(registry="registry")
    world: Any = SimpleNamespace(is_main=is_main, rank=3)
    asked = []
    monkeypatch.setattr(trial, "choose_screen", lambda *given, quiet: asked.append((given, quiet)))
    monkeypatch.setattr(trial, "Log", lambda *_: nullcontext("log"))
    monkeypatch.setattr(trial, "build_trainer", lambda *given: given)
    with trial.trial_run(config, plugins, world) as made:
        *given, run, log = made  # type: ignore[misc]
        assert (given, log) == ([config, plugins, world], "log")
        assert run.path.is_dir()
    assert asked == [(("log", "registry"), not is_main)]
    assert not run.path.exists()


def test_without_an_update_there_is_nothing_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed(Machine([], 1.0, 1.0), monkeypatch) == Timing(0.0, 0.0)


@pytest.mark.parametrize(("token", "n_parts"), [(0.1, 2), (0.003, 3)], ids=["a sixteenth", "a quarter"])
def test_a_slow_update_is_known_from_its_smaller_parts(
    token: float, n_parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine([640, 640], 2.0, token)
    found = timed(machine, monkeypatch)
    assert found.seconds == pytest.approx(2.0 + token * 640 * 7)
    sizes = [len(split(machine.batches()[0], n)[0]) for n in PARTS[:n_parts]]
    assert machine.updates == [(n, 1) for n in (sizes[0], *sizes)], "the smallest warms up"
    assert found.flops == pytest.approx(7 * 7 * sizes[-1] / (2.0 + token * 7 * sizes[-1]))


def test_parts_that_all_take_equally_long_are_not_taken_for_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token then costs half of its share."""
    machine = Machine([640], 4.0, 0.0)
    found = timed(machine, monkeypatch)
    n = machine.updates[-1][0]
    assert found.seconds == pytest.approx(4.0 + 0.5 * 4.0 / n * (640 - n))


def test_parts_of_one_pair_each_differ_by_chance_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 pairs, a sixty-fourth and a sixteenth are one pair; the second one takes 0.6 seconds longer."""
    machine = Machine([20], 2.9, 0.0)
    costs = iter([(2.9, 0.0), (2.9, 0.0), (3.5, 0.0)])
    train_step = machine.train_step

    def slower_at_last(batch: Sequence[Pair], step: int) -> Any:
        machine.cost = next(costs)
        return train_step(batch, step)

    monkeypatch.setattr(machine, "train_step", slower_at_last)
    found = timed(machine, monkeypatch)
    assert [n for n, _ in machine.updates] == [1, 1, 1]
    assert found.seconds == pytest.approx(3.5 + 0.5 * 3.5 / 7 * (20 - 1) * 7)


def test_a_part_takes_long_enough_at_the_very_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine([64], 3.0, 0.0)
    timed(machine, monkeypatch, enough=3.0)
    assert len(machine.updates) == 3


@pytest.mark.parametrize(("enough", "n_whole"), [(10.0, 6), (2.9, 2), (3.0, 3)])
def test_of_quick_updates_the_mean_counts_until_they_took_enough(
    enough: float, n_whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine([64, 128, 64, 128, 64, 128], 0.0, 1 / 448)  # a second for 64 pairs
    machine.state.step = 5
    found = timed(machine, monkeypatch, enough)
    whole = [64, 128, 64, 128, 64, 128][:n_whole]
    assert machine.updates[4:] == [(n, 5) for n in whole]
    assert found.seconds == pytest.approx(sum(whole) / 64 / len(whole))
    assert found.flops == pytest.approx(7 * 448)


def test_a_batch_with_fewer_pairs_than_parts_is_taken_apart_as_far_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine([2, 2], 0.1, 0.0, counts=False)
    found = timed(machine, monkeypatch)
    assert [n for n, _ in machine.updates] == [1, 1, 1, 1, 2, 2]
    assert found == Timing(pytest.approx(0.1), 0.0)
    assert timed(Machine([1], 0.0, 0.0), monkeypatch) == Timing(1e-4, pytest.approx(49 / 1e-4))


@pytest.mark.parametrize("n_pairs", [[640, 640], [4, 5, 4]], ids=["parts", "whole updates"])
def test_operations_per_second_are_the_same_on_a_busy_machine(
    n_pairs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    idle, busy = (timed(Machine(n_pairs, 0.02, 0.01, others=others), monkeypatch) for others in (0.0, 7.0))
    assert busy.flops == pytest.approx(idle.flops, rel=0.05), "fewer updates fit into the measurement"
    assert busy.seconds == pytest.approx(8 * idle.seconds, rel=0.05), "and its end comes later"
