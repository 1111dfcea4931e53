"""Who the processes of a run are, where each of them computes, and how they agree."""

from __future__ import annotations

__all__ = ["World", "init", "pick_device"]

import os
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from s2s.distributed.meeting import private
from s2s.distributed.watchdog import Watchdog
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

T = TypeVar("T")

GRACE = timedelta(seconds=30)
"""Beyond the timeout, for the watchdog to speak before torch ends what waits"""
POLL = 0.2
"""Seconds between two looks at whether the first rank is done"""


@dataclass(frozen=True)
class World:
    """The processes of a run, as one of them sees them."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Rank among the processes of this machine"""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    store: PrefixStore | None = field(default=None, compare=False, repr=False)
    """Where the processes leave word for each other; None for one that is alone"""
    watchdog: Watchdog | None = field(default=None, compare=False, repr=False)
    """Who finds out on whom they wait; None for one that is alone"""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and speaks to the user."""
        return self.rank == 0

    def collective(self, what: str) -> AbstractContextManager[None]:
        """Around whatever waits for other processes, so that one that does not come can be named."""
        return self.watchdog.waiting(what) if self.watchdog else nullcontext()

    def beat(self) -> None:
        """This process has come a step further inside of a collective that is long."""
        if self.watchdog:
            self.watchdog.beat()

    def at_update(self, step: int) -> None:
        """This process begins an update."""
        if self.watchdog:
            self.watchdog.step = step

    def sum_scalars(self, values: Tensor) -> Tensor:
        """[n] -> [n], summed over the ranks."""
        if self.size == 1:
            return values
        total = values.clone()
        with self.collective("the sum of the losses"):
            dist.all_reduce(total)
        return total

    def any_true(self, flag: bool) -> bool:
        """Whether the flag is true on any rank: how all of them take the same turn."""
        if self.size == 1:
            return flag
        flags = torch.tensor([int(flag)], device=self.device)
        with self.collective("an agreement"):
            dist.all_reduce(flags, op=dist.ReduceOp.MAX)
            return bool(flags.item())

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, in their order."""
        if self.size == 1:
            return [value]
        values: list[T] = [value] * self.size
        with self.collective("the others' results"):
            dist.all_gather_object(values, value)
        return values

    @contextmanager
    def first_goes_first(self, what: str) -> Iterator[None]:
        """The first rank does the block, however long that takes, then the others; once for each `what`."""
        while self.store is not None and not self.is_first and not self.store.check([what]):
            time.sleep(POLL)  # a barrier would give up after TIMEOUT, and hear no signal
        yield
        if self.store is not None and self.is_first:
            self.store.set(what, "done")

    def barrier(self) -> None:
        """Wait for all ranks."""
        if self.size > 1:
            with self.collective("a barrier"):
                dist.barrier()

    def close(self) -> None:
        """Leave the group, so that the other ranks need not wait for the timeout."""
        if self.watchdog:
            self.watchdog.close()
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def init(device: str, timeout: timedelta) -> World:
    """Join the processes that torchrun started, or be alone; `device` is auto, cpu, cuda or cuda:1.

    timeout: how long one waits for the others.
    """
    if "RANK" not in os.environ:
        return World(device=pick_device(device, "train.device"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    place = pick_device(device, "train.device", local_rank)
    try:
        store, rank, size = next(rendezvous("env://", timeout=timeout))
    except ValueError as error:
        raise ConfigError(f"RANK is set, and {error}: start with torchrun, or unset RANK") from error
    if size == 1:
        return World(rank, size, local_rank, place)
    on_cuda = place.type == "cuda"
    if on_cuda:
        torch.cuda.set_device(place)
    store = private(store, rank, size, timeout.total_seconds())
    dist.init_process_group(
        "nccl" if on_cuda else "gloo",
        store=store,
        rank=rank,
        world_size=size,
        timeout=timeout + GRACE,
        device_id=place if on_cuda else None,
    )
    return World(rank, size, local_rank, place, store, Watchdog(store, rank, size, timeout.total_seconds()))


def pick_device(name: str, key: str, local_rank: int | None = None) -> torch.device:
    """The device that `name`, the option `key`, means for this process; one GPU each where there are several."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"{key}={name}: no such device; use auto, cpu, cuda or cuda:1") from None
    if device.type != "cuda":
        return device
    index = device.index if device.index is not None else local_rank or 0
    if index >= torch.cuda.device_count():
        n_gpus = torch.cuda.device_count()
        raise ConfigError(f"{key}={name}: cuda:{index} is asked for, and torch sees {n_gpus} GPUs")
    return torch.device("cuda", index)
