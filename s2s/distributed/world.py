"""The process group of a run: ranks, their devices, and the collectives that training needs."""

from __future__ import annotations

__all__ = ["STORE", "World", "init", "pick_device"]

import json
import os
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from s2s.distributed.rendezvous import private_store
from s2s.distributed.watchdog import Watchdog, exit_after
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from torch.distributed.distributed_c10d import Store

T = TypeVar("T")

GRACE = timedelta(seconds=30)
"""Added to torch's own timeout, so that the watchdog can name the rank that hangs first"""
STORE = "S2S_STORE"
"""Environment variable in which our own launcher names the file through which the ranks of one machine meet"""


@dataclass(frozen=True)
class World:
    """This process's rank, and its means of communication."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Rank among the processes of this machine"""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    store: PrefixStore | None = field(default=None, compare=False, repr=False)
    """Key-value store that all ranks share; None without other ranks"""
    watchdog: Watchdog | None = field(default=None, compare=False, repr=False)
    """Names the rank that hangs; None without other ranks"""

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which writes files and prints."""
        return self.rank == 0

    def collective(self, what: str) -> AbstractContextManager[None]:
        """Around every operation that waits for other ranks, so that a rank that hangs can be named."""
        return self.watchdog.collective(what) if self.watchdog else nullcontext()

    def heartbeat(self) -> None:
        """Report progress inside a long collective."""
        if self.watchdog:
            self.watchdog.heartbeat()

    def start_update(self, step: int) -> None:
        """Note the number of the current update, for the watchdog's message."""
        if self.watchdog:
            self.watchdog.step = step

    def all_reduce(self, values: Tensor) -> Tensor:
        """[n] -> [n], summed over the ranks."""
        if self.size == 1:
            return values
        total = values.clone()
        with self.collective("the sum of the losses"):
            dist.all_reduce(total)
        return total

    def any_true(self, flag: bool) -> bool:
        """Whether the flag is true on any rank, so that all ranks take the same branch."""
        if self.size == 1:
            return flag
        flags = torch.tensor([int(flag)], device=self.device)
        with self.collective("a flag"):
            dist.all_reduce(flags, op=dist.ReduceOp.MAX)
            return bool(flags.item())

    def all_gather(self, value: T) -> list[T]:
        """The values of all ranks, in their order; they travel as JSON, since nothing that is received is unpickled."""
        if self.size == 1:
            return [value]
        data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(self.device)
        with self.collective("the results of all ranks"):
            sizes = self._all_gather(torch.tensor([len(data)], device=self.device))
            padded = torch.zeros(int(max(sizes)), dtype=torch.uint8, device=self.device)
            padded[: len(data)] = data
            found = self._all_gather(padded)
        return [json.loads(bytes(one[: int(n)].tolist())) for one, n in zip(found, sizes, strict=True)]

    def _all_gather(self, tensor: Tensor) -> list[Tensor]:
        """[n] -> [n] of every rank"""
        tensors = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(tensors, tensor)
        return tensors

    @contextmanager
    def main_process_first(self, what: str) -> Iterator[None]:
        """Rank 0 runs the block first, however long that takes, then the others; each `what` may be used once."""
        if self.store is None or self.watchdog is None:
            yield
        elif self.is_main:
            with self.watchdog.beating():
                yield
            self.store.set(what, "done")
        else:
            self.watchdog.wait_for_main(self.store, what)  # a barrier would time out, and block signals
            yield

    def barrier(self) -> None:
        """Wait for all ranks."""
        if self.size > 1:
            with self.collective("a barrier"):
                dist.barrier()

    def close(self) -> None:
        """Stop the watchdog and leave the process group."""
        if self.watchdog:
            self.watchdog.close()
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def init(device: str, timeout: timedelta) -> World:
    """Join the process group that torchrun started; without torchrun, a world of one. device: auto, cpu, cuda, cuda:1.

    timeout: of the rendezvous and of every collective.
    """
    if "RANK" not in os.environ:
        return World(device=pick_device(device, "train.device"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    own_device = pick_device(device, "train.device", local_rank)
    try:
        store, rank, size = _file_store() if STORE in os.environ else next(rendezvous("env://", timeout=timeout))
    except ValueError as error:
        raise ConfigError(f"RANK is set, and {error}: start with torchrun, or unset RANK") from error
    if size == 1:
        return World(rank, size, local_rank, own_device)
    on_cuda = own_device.type == "cuda"
    if on_cuda:
        torch.cuda.set_device(own_device)
    seconds = timeout.total_seconds()
    with exit_after(2 * seconds):
        store = private_store(store, rank, size, seconds)
    with exit_after(2 * seconds + GRACE.total_seconds()):
        dist.init_process_group(
            "nccl" if on_cuda else "gloo",
            store=store,
            rank=rank,
            world_size=size,
            timeout=timeout + GRACE,
            device_id=own_device if on_cuda else None,
        )
        watchdog = Watchdog(store, rank, size, seconds)
    return World(rank, size, local_rank, own_device, store, watchdog)


def _file_store() -> tuple[Store, int, int]:
    """A store in a file of our own launcher's, with this rank and the number of ranks."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return dist.FileStore(os.environ[STORE], size), rank, size  # type: ignore[attr-defined]


def pick_device(name: str, key: str, local_rank: int | None = None) -> torch.device:
    """The device that `name`, the option `key`, means for this process; one GPU each where there are several."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"{key}={name}: no such device; use auto, cpu, cuda or cuda:1") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"{key}={name}: s2s computes on a CPU or a CUDA device; use auto, cpu, cuda or cuda:1")
    if device.type == "cpu":
        return device
    index = device.index if device.index is not None else local_rank or 0
    if index >= torch.cuda.device_count():
        n_gpus = torch.cuda.device_count()
        raise ConfigError(f"{key}={name}: cuda:{index} is asked for, and torch sees {n_gpus} GPUs")
    return torch.device("cuda", index)
