"""A process by itself: its device, and collectives of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from s2s.config import TrainConfig
from s2s.distributed.sharding import OneProcess
from s2s.distributed.strategy import chosen_strategy, join
from s2s.distributed.world import World, pick_device
from s2s.errors import ConfigError
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def have(n: int) -> None:
        monkeypatch.setattr("torch.cuda.is_available", lambda: n > 0)
        monkeypatch.setattr("torch.cuda.device_count", lambda: n)

    return have


@pytest.mark.parametrize(
    ("name", "local_rank", "n_gpus", "device"),
    [
        ("auto", None, 0, "cpu"),
        ("auto", 3, 0, "cpu"),
        ("auto", None, 2, "cuda:0"),
        ("auto", 1, 2, "cuda:1"),
        ("cpu", 1, 2, "cpu"),
        ("cuda", None, 2, "cuda:0"),
        ("cuda", 1, 2, "cuda:1"),
        ("cuda:1", 0, 2, "cuda:1"),
        ("cuda:0", 1, 2, "cuda:0"),
    ],
)
def test_a_process_computes_where_it_is_told_or_on_a_gpu_of_its_own(
    name: str, local_rank: int | None, n_gpus: int, device: str, gpus: Callable[[int], None]
) -> None:
    gpus(n_gpus)
    assert str(pick_device(name, "train.device", local_rank)) == device


@pytest.mark.parametrize(
    ("name", "n_gpus", "message"),
    [
        ("gpu", 1, "train.device=gpu: no such device; use auto, cpu, cuda, mps, xpu, or one of several, as in TYPE:1"),
        ("meta", 1, "train.device=meta: no such device; use auto, cpu, cuda, mps, xpu, or one of several"),
        ("cuda:0", 0, "train.device=cuda:0: cuda:0 is asked for, and torch sees 0 such devices"),
        ("cuda:2", 2, "train.device=cuda:2: cuda:2 is asked for, and torch sees 2 such devices"),
        ("mps", 1, "train.device=mps: mps:2 is asked for, and torch sees 0 such devices"),
        ("xpu:0", 1, "train.device=xpu:0: xpu:0 is asked for, and torch sees 0 such devices"),
        ("auto", 2, "train.device=cuda: cuda:2 is asked for, and torch sees 2 such devices"),
    ],
)
def test_a_device_that_is_not_there_is_refused(
    name: str, n_gpus: int, message: str, gpus: Callable[[int], None]
) -> None:
    gpus(n_gpus)
    with pytest.raises(ConfigError, match=message):
        pick_device(name, "train.device", local_rank=2)


@dataclass(kw_only=True)
class NamedStrategy(TrainConfig):
    """The options of a plugin with strategies."""

    strategy: str = "mine"


@dataclass(frozen=True)
class Joining:
    """A strategy that joins this world."""

    world: World | None
    calls: list[tuple[str, timedelta]] = field(default_factory=list)

    def join(self, device: str, timeout: timedelta) -> World | None:
        self.calls.append((device, timeout))
        return self.world


def registry(strategy: Joining) -> Registry:
    registry = Registry()
    registry.blocked = {"mpi": "s2s_mpi"}
    registry.add("strategy", "mine", Choice, lambda _: strategy)
    return registry


@pytest.mark.parametrize("size", [None, "1", "2"])
def test_a_process_is_alone_unless_a_strategy_joins_others(size: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if size:
        monkeypatch.setenv("WORLD_SIZE", size)
    joining = Joining(World(rank=1, size=2))
    config = NamedStrategy(device="cpu", timeout=5.0)
    assert join(config, registry(joining)) is joining.world
    assert joining.calls == [("cpu", timedelta(seconds=5))]
    for train, strategy in ((config, Joining(None)), (TrainConfig(device="cpu"), joining)):
        if size != "2":
            assert join(train, registry(strategy)) == World()
            continue
        with pytest.raises(
            ConfigError, match=r"WORLD_SIZE=2: several processes were started, and .* Left out by .*mpi"
        ):
            join(train, registry(strategy))


def test_a_strategy_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train\.strategy=yours: no such strategy\. Known: mine"):
        chosen_strategy(NamedStrategy(strategy="yours"), registry(Joining(None)))


def test_collectives_of_one_process_give_its_own_values() -> None:
    world, values = World(), torch.tensor([1.0, 2.0])
    assert (world.rank, world.size, world.local_rank, world.device) == (0, 1, 0, torch.device("cpu"))
    assert world.is_main
    assert not World(rank=1, size=2).is_main
    assert world.all_reduce(values) is values
    assert [world.any_true(flag) for flag in (True, False)] == [True, False]
    assert world.all_gather("x") == ["x"]
    with world.collective("x"), world.main_process_first("y"):
        world.barrier()


def test_one_process_shares_nothing() -> None:
    strategy, model = OneProcess(), nn.Linear(2, 1)
    assert not strategy.needs_every_rank
    strategy.wrap(model)
    with strategy.micro_batch(last=True), strategy.unsharded(model):
        model.weight.grad = torch.tensor([[3.0, 4.0]])
    strategy.reduce_gradients()
    assert float(strategy.gradient_norm(list(model.parameters()))) == 5, "the bias has no gradient"
    tensors = {"x": torch.ones(2)}
    assert strategy.full_tensors(tensors) is tensors
    assert strategy.shard_like(tensors, {}) == tensors
