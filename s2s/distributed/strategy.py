"""train.strategy: how a run uses several processes. Plugins register strategies, and add the option that names one."""

from __future__ import annotations

__all__ = ["Strategy", "chosen_strategy", "join"]

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from s2s.config import TrainConfig
    from s2s.distributed.sharding import Sharding
    from s2s.distributed.world import World
    from s2s.registry import Registry


class Strategy(Protocol):
    """How the processes of a run are started, find each other, and share a model."""

    def launch(self, train: TrainConfig, arguments: Sequence[str]) -> int | None:
        """Train in other processes, each given `arguments`; the exit code. None: train in this process.

        Called before torch is imported, unless this process is one of several (RANK is in the environment).
        """

    def join(self, device: str, timeout: timedelta) -> World | None:
        """Join the other processes of this training; None: there are none.

        device: that of train.device. timeout: of the rendezvous and of every collective.
        """

    def share(self, world: World, dtype: torch.dtype) -> Sharding:
        """How these processes, at least two, share a model; dtype: of its forward pass."""


def chosen_strategy(train: TrainConfig, registry: Registry) -> Strategy | None:
    """The strategy that train.strategy names; None where no plugin has added that option: then one process trains."""
    name = getattr(train, "strategy", None)
    if name is None:
        return None
    if name not in registry.names("strategy"):
        raise ConfigError(f"train.strategy={name}: no such strategy.{registry.known_hint('strategy')}")
    strategy: Strategy = registry.build_default("strategy", name)
    return strategy


def join(train: TrainConfig, registry: Registry) -> World:
    """The process group that the strategy joins, or a world of one."""
    from s2s.distributed.world import World, pick_device  # torch

    strategy = chosen_strategy(train, registry)
    world = strategy.join(train.device, timedelta(seconds=train.timeout)) if strategy else None
    size = os.environ.get("WORLD_SIZE", "1")
    if world is None and size != "1":
        raise ConfigError(
            f"WORLD_SIZE={size}: several processes were started, and none would join the others."
            + registry.absent_hint()
        )
    return world or World(device=pick_device(train.device, "train.device"))
