"""The processes of a run as seen from one of them: a single process, or a process group that a plugin joins."""

from __future__ import annotations

__all__ = ["World", "pick_device"]

from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import torch

from s2s.backend.device_types import device_of, device_types, import_device_type
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
    """The device that `name`, the value of `key`, means for this process; one each if there are several.

    auto: the first type of accelerator of which there is one, else the CPU. Raises ConfigError if there is no such
    device here.
    """
    if name == "auto":
        accelerators = [kind for kind in device_types() if kind != "cpu"]
        name = next((kind for kind in accelerators if _count(kind)), "cpu")
    device = _parsed(name)
    if device is None or device.type not in device_types():
        known = ", ".join(device_types())
        raise ConfigError(f"{key}={name}: no such device; use auto, {known}, or one of several, as in TYPE:1")
    if device.type == "cpu":
        return device
    index = device.index if device.index is not None else local_rank or 0
    if index >= (n := device_of(device).count()):
        raise ConfigError(f"{key}={name}: {device.type}:{index} is asked for, and torch sees {n} such devices")
    return torch.device(device.type, index)


def _parsed(name: str) -> torch.device | None:
    """None: torch has no such type, even after the module of a registered type has been imported."""
    with suppress(RuntimeError):
        return torch.device(name)
    import_device_type(name.partition(":")[0])
    with suppress(RuntimeError):
        return torch.device(name)
    return None


def _count(kind: str) -> int:
    device = _parsed(kind)
    return device_of(device).count() if device else 0
