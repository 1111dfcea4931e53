"""The processes of a run as seen from one of them: a single process, or a process group that a plugin joins."""

from __future__ import annotations

__all__ = ["World", "pick_device"]

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import torch

from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """A single process; a process group derives from it and overrides everything that communicates."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Rank among the processes of this machine"""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which writes files and prints."""
        return self.rank == 0

    def collective(self, what: str) -> AbstractContextManager[None]:
        """Context for every operation that waits for other ranks."""
        return nullcontext()

    def heartbeat(self) -> None:
        """Report progress inside a long collective."""

    def start_update(self, step: int) -> None:
        """Note the number of the current update."""

    def all_reduce(self, values: Tensor) -> Tensor:
        """[n] -> [n], summed over the ranks."""
        return values

    def any_true(self, flag: bool) -> bool:
        """Whether the flag is true on any rank, so that all ranks take the same branch."""
        return flag

    def all_gather(self, value: T) -> list[T]:
        """The values of all ranks, in rank order; JSON must be able to hold them."""
        return [value]

    @contextmanager
    def main_process_first(self, what: str) -> Iterator[None]:
        """Rank 0 runs the block first, however long that takes, then the others; each `what` may be used once."""
        yield

    def barrier(self) -> None:
        """Wait for all ranks."""

    def close(self) -> None:
        """Leave the process group."""


def pick_device(name: str, key: str, local_rank: int | None = None) -> torch.device:
    """The device that `name`, the value of `key`, means for this process; one GPU each if there are several."""
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
