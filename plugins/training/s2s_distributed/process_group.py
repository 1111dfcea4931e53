"""The process group of a run: ranks, their devices, and the collectives that training needs."""

from __future__ import annotations

__all__ = ["ProcessGroup", "join"]

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from s2s import ConfigError
from s2s.backend import device_of
from s2s.distributed import World, pick_device
from s2s_distributed.rendezvous import STORE, check_collectives, private_store
from s2s_distributed.watchdog import Watchdog, exit_after

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from torch.distributed.distributed_c10d import Store

T = TypeVar("T")

GRACE = timedelta(seconds=30)
"""Added to torch's own timeout, so that the watchdog can name the rank that hangs first"""


@dataclass(frozen=True)
class ProcessGroup(World):
    """One of several processes, with its communication."""

    store: PrefixStore = field(kw_only=True, compare=False, repr=False)
    """Key-value store that all ranks share"""
    watchdog: Watchdog = field(kw_only=True, compare=False, repr=False)
    """Names the rank that hangs"""

    def collective(self, what: str) -> AbstractContextManager[None]:
        """A timed collective, so that a rank that hangs can be named."""
        return self.watchdog.collective(what)

    def heartbeat(self) -> None:
        """Report progress to the watchdog."""
        self.watchdog.heartbeat()

    def start_update(self, step: int) -> None:
        """Note the number of the current update, for the watchdog's message."""
        self.watchdog.step = step

    def all_reduce(self, values: Tensor) -> Tensor:
        """[n] -> [n]"""
        total = values.clone()
        with self.collective("the sum of the losses"):
            dist.all_reduce(total)
        return total

    def any_true(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        flags = torch.tensor([int(flag)], device=self.device)
        with self.collective("a flag"):
            dist.all_reduce(flags, op=dist.ReduceOp.MAX)
            return bool(flags.item())

    def all_gather(self, value: T) -> list[T]:
        """Exchanged as JSON, since nothing received is unpickled."""
        data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(self.device)
        with self.collective("the results of all ranks"):
            sizes = self._all_gather(torch.tensor([len(data)], device=self.device))
            padded = torch.zeros(int(max(sizes)), dtype=torch.uint8, device=self.device)
            padded[: len(data)] = data
            gathered = self._all_gather(padded)
        return [json.loads(bytes(one[: int(n)].tolist())) for one, n in zip(gathered, sizes, strict=True)]

    def _all_gather(self, tensor: Tensor) -> list[Tensor]:
        """[n] -> [n] of every rank"""
        tensors = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(tensors, tensor)
        return tensors

    @contextmanager
    def main_process_first(self, what: str) -> Iterator[None]:
        """The others wait for a key in the store: a barrier would time out, and block signals."""
        if self.is_main:
            with self.watchdog.beating():
                yield
            self.store.set(what, "done")
        else:
            self.watchdog.wait_for_main(self.store, what)
            yield

    def barrier(self) -> None:
        """Wait for all ranks."""
        with self.collective("a barrier"):
            dist.barrier()

    def close(self) -> None:
        """Stop the watchdog and leave the process group."""
        self.watchdog.close()
        if dist.is_initialized():
            dist.destroy_process_group()


def join(device: str, timeout: timedelta) -> World:
    """Join the process group that torchrun or our launcher started. device: that of train.device.

    timeout: of the rendezvous and of every collective.
    """
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    own_device = pick_device(device, "train.device", local_rank)
    try:
        store, rank, size = _file_store() if STORE in os.environ else next(rendezvous("env://", timeout=timeout))
    except ValueError as error:
        raise ConfigError(f"RANK is set, and {error}: start with torchrun, or unset RANK") from error
    if size == 1:
        return World(rank, size, local_rank, own_device)
    device_of(own_device).select()
    collectives = device_of(own_device).collectives
    seconds = timeout.total_seconds()
    with exit_after(2 * seconds):
        store = private_store(store, rank, size, seconds)
        check_collectives(store, rank, size, collectives, seconds)
    with exit_after(2 * seconds + GRACE.total_seconds()):
        dist.init_process_group(
            collectives,
            store=store,
            rank=rank,
            world_size=size,
            timeout=timeout + GRACE,
            device_id=None if collectives == "gloo" else own_device,
        )
        watchdog = Watchdog(store, rank, size, seconds)
    return ProcessGroup(rank, size, local_rank, own_device, store=store, watchdog=watchdog)


def _file_store() -> tuple[Store, int, int]:
    """A store in a file created by our own launcher, with this rank and the number of ranks."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return dist.FileStore(os.environ[STORE], size), rank, size  # type: ignore[attr-defined]
