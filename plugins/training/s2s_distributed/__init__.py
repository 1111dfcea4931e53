"""Training in several processes: train.devices starts them, torchrun may; train.strategy says what each one holds.

`launch` starts the processes of one machine, `process_group` is what each joins; `ddp` sums gradients, `fsdp` shards
parameters. No torch at import.
"""

from __future__ import annotations

__all__ = ["DDPStrategy", "FSDPStrategy", "s2s_register"]

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import Mark, TrainConfig, at_least, check_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    import torch

    from s2s.distributed import Sharding, World


@dataclass(kw_only=True)
class DistributedConfig(TrainConfig):
    """Options of training in several processes."""

    devices: int | str = field(default=1, metadata=Mark.NEUTRAL)
    """Processes to start on this machine, each with its own device; auto: one for each GPU. Under torchrun, torchrun
    decides."""
    strategy: str = field(default="ddp", metadata=Mark.NEUTRAL)
    """Parameters in each process. ddp: all; fsdp: a shard of each, gathered layer by layer when needed; or what
    a plugin registers."""
    restarts: int = field(default=3, metadata=Mark.NEUTRAL)
    """Times that train.devices restarts the processes after one was killed or did not join."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("train", self, restarts=at_least(0))
        if self.devices != "auto" and not (isinstance(self.devices, int) and self.devices >= 1):
            raise ConfigError(f"train.devices={self.devices}: expected a number of processes, or auto")
        if self.devices != 1 and ":" in self.device:
            raise ConfigError(
                f"train.device={self.device} is one device, and train.devices={self.devices} asks for several; give "
                f"train.device={self.device.partition(':')[0]}"
            )


@dataclass(kw_only=True)
class DDPConfig(Choice):
    """Every process holds all parameters; gradients are summed while backward still runs."""


@dataclass(kw_only=True)
class FSDPConfig(Choice):
    """Fully sharded data parallelism, torch's FSDP2."""


class Processes:
    """Processes that `launch` or torchrun starts, and that join one process group of torch."""

    def __init__(self, _: Choice) -> None:
        """These strategies have no options."""

    def launch(self, train: DistributedConfig, arguments: Sequence[str]) -> int | None:
        """Run one process for each device if there are several; their exit code."""
        if train.devices == 1:
            return None
        from s2s_distributed.launch import launch, n_processes

        n = n_processes(train)
        return launch("s2s.cli.train", arguments, train, n) if n > 1 else None

    def join(self, device: str, timeout: timedelta) -> World | None:
        """The process group of `launch` or of torchrun."""
        if "RANK" not in os.environ:
            return None
        from s2s_distributed.process_group import join

        return join(device, timeout)


class DDPStrategy(Processes):
    """train.strategy=ddp."""

    def share(self, world: World, dtype: torch.dtype) -> Sharding:
        """All parameters on every rank, and like their gradients in fp32, whatever the forward pass's `dtype`."""
        from s2s_distributed.ddp import DDP

        return DDP(world)


class FSDPStrategy(Processes):
    """train.strategy=fsdp."""

    def share(self, world: World, dtype: torch.dtype) -> Sharding:
        """A shard of each parameter on every rank."""
        from s2s_distributed.fsdp import FSDP

        return FSDP(world, dtype)


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(DistributedConfig)
    registry.add("strategy", "ddp", DDPConfig, DDPStrategy)
    registry.add("strategy", "fsdp", FSDPConfig, FSDPStrategy)
