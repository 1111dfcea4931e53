from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn
from torch.distributed import TCPStore

from harness.forked_children import in_child, in_children
from harness.shipped_plugins import shipped
from s2s.distributed import World
from s2s.distributed.sharding import OneProcess
from s2s.distributed.strategy import join as join_world
from s2s.errors import ConfigError
from s2s_distributed import DistributedConfig
from s2s_distributed.ddp import DDP
from s2s_distributed.process_group import join

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def side_by_side(n_ranks: int, action: Callable[[World], object], **variables: str) -> list[int]:
    """Exit codes of `n_ranks` processes that meet as torchrun lets them meet, and do `action`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def process(rank: int) -> None:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(n_ranks)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **variables}
        world = join("cpu", timedelta(seconds=20))
        action(world)
        world.close()

    return in_children([lambda rank=rank: process(rank) for rank in range(n_ranks)])


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def loss(net: nn.Module, rows: Tensor) -> Tensor:
    return (net(rows) ** 2).sum()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("alone")
def test_without_torchrun_the_world_is_one_process() -> None:
    world = join_world(DistributedConfig(device="cpu"), shipped().registry)
    assert world == World(0, 1, 0, torch.device("cpu"))
    assert not torch.distributed.is_initialized()
    assert not world.any_true(False)
    net = model()
    strategy = OneProcess()
    strategy.wrap(net)
    loss(net, torch.ones(2, 5)).backward()
    before = [p.grad.clone() for p in net.parameters()]
    strategy.reduce_gradients()
    world.barrier()
    world.close()
    assert all(torch.equal(a, p.grad) for a, p in zip(before, net.parameters(), strict=True))


def test_two_processes_have_the_gradient_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s.distributed.buckets.BUCKET_BYTES", 90)  # several buckets, even here
    rows = torch.randn(6, 5, generator=torch.Generator().manual_seed(2))
    whole = model()
    (loss(whole, rows[:3]) + loss(whole, rows[3:])).backward()

    def action(world: World) -> None:
        net = model()
        strategy = DDP(world)
        strategy.wrap(net)
        own = rows[world.rank * 3 : world.rank * 3 + 3]
        for _ in range(2):  # what one update leaves behind does not spoil the next
            net.zero_grad()
            with strategy.micro_batch(last=False):
                loss(net, own[:1]).backward()
            assert strategy.n_started == 0
            with strategy.micro_batch(last=True):
                loss(net, own[1:]).backward()
            assert strategy.n_started == len(strategy.buckets) > 1  # all of them while backward ran
            strategy.reduce_gradients()
        for ours, theirs in zip(net.parameters(), whole.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)

    assert side_by_side(2, action) == [0, 0]


def test_a_rank_without_work_adds_zeros_and_all_end_with_the_same_bytes(tmp_path: Path) -> None:
    def action(world: World) -> None:
        net = model()
        strategy = DDP(world)
        strategy.wrap(net)
        if world.rank == 0:
            with strategy.micro_batch(last=True):
                loss(net, torch.ones(2, 5)).backward()
        strategy.reduce_gradients()
        flat = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
        (tmp_path / str(world.rank)).write_bytes(flat.numpy().tobytes())

    assert side_by_side(2, action) == [0, 0]
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


def test_scalars_are_summed_and_one_flag_is_enough() -> None:
    def action(world: World) -> None:
        sums = torch.tensor([1.0, float(world.rank)])
        assert world.all_reduce(sums).tolist() == [2.0, 1.0]
        assert sums.tolist() == [1.0, world.rank]
        assert world.any_true(world.rank == 1)
        assert not world.any_true(False)
        world.barrier()
        assert world.is_main == (world.rank == 0)

    assert side_by_side(2, action) == [0, 0]


def test_values_are_gathered_in_the_order_of_the_ranks() -> None:
    assert World().all_gather("x") == ["x"]

    def action(world: World) -> None:
        assert world.all_gather({"rank": world.rank, "none": None}) == [{"rank": r, "none": None} for r in (0, 1, 2)]

    assert side_by_side(3, action) == [0, 0, 0]


def test_the_first_rank_goes_first_however_long_it_takes(tmp_path: Path) -> None:
    def action(world: World) -> None:
        with world.main_process_first("work"):
            if world.is_main:
                time.sleep(0.5)
                (tmp_path / "done").touch()
            assert (tmp_path / "done").exists()
        world.barrier()

    assert side_by_side(3, action) == [0, 0, 0]
    with World().main_process_first("work"):
        pass


def test_a_restarted_group_does_not_meet_the_keys_of_the_attempt_before() -> None:
    """torchrun's store outlives a group that died: its keys lead to processes that are no more."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    under = {"MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    died = side_by_side(2, lambda _: os._exit(9), **under, TORCHELASTIC_RESTART_COUNT="0")
    assert died == [9, 9]

    def action(world: World) -> None:
        assert world.all_reduce(torch.ones(1)).item() == 2

    before = places(store)
    assert side_by_side(2, action, **under, TORCHELASTIC_RESTART_COUNT="0") == [0, 0]
    assert len(before) == 1
    assert len(places(store) - before) == 1


def places(store: TCPStore) -> set[str]:
    """Prefixes in a store, one for each start."""
    return {key.split("/")[0] for key in store.list_keys()} - {"rendezvous"}


def test_a_rank_whose_partner_is_gone_gives_up_after_the_timeout() -> None:
    def action(world: World) -> None:
        if world.rank == 1:
            os._exit(0)
        began = time.monotonic()
        with pytest.raises(RuntimeError):
            world.barrier()
        assert time.monotonic() - began < 25
        os._exit(0)

    assert side_by_side(2, action) == [0, 0]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", ["gpu", "cuda:99", "mps", "meta"])
def test_a_device_that_is_not_there_is_one_clear_error(name: str) -> None:
    with pytest.raises(ConfigError, match=f"train.device={name}: "):
        join_world(DistributedConfig(device=name), shipped().registry)


def test_half_of_the_variables_of_torchrun_is_one_clear_error() -> None:
    def action() -> None:
        os.environ["RANK"] = "0"
        os.environ.pop("WORLD_SIZE", None)
        with pytest.raises(ConfigError, match="start with torchrun, or unset RANK"):
            join_world(DistributedConfig(device="cpu"), shipped().registry)

    assert in_child(action) == 0
