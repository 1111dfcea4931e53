"""Several processes started by torchrun or train.devices, and train.strategy=ddp. No torch at import."""

from __future__ import annotations

__all__ = ["DDPConfig", "s2s_join", "s2s_register"]

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s import Choice, Registry, hookimpl

if TYPE_CHECKING:
    from datetime import timedelta

    from s2s.distributed import World


@dataclass(kw_only=True)
class DDPConfig(Choice):
    """Every process holds all parameters; gradients are summed while backward still runs."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("strategy", "ddp", DDPConfig, "s2s_distributed.ddp.strategy:build_ddp")


@hookimpl
def s2s_join(device: str, timeout: timedelta) -> World | None:
    """The process group; None without torchrun."""
    if "RANK" not in os.environ:
        return None
    from s2s_distributed.ddp.process_group import join

    return join(device, timeout)
