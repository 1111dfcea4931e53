"""Several processes that train one model, started by torchrun; with one process, nothing here communicates.

A `World` is the process group: this rank, the collectives, the watchdog. A `Strategy` is what each rank holds: all
parameters (`DDP`, train.strategy=ddp) or, from a plugin, a shard of each. Gradients are summed, never averaged: each
is already divided by the normaliser of the global batch.
"""

from __future__ import annotations

__all__ = ["DDP", "STORE", "Strategy", "World", "init", "pick_device"]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.distributed.ddp import DDP
    from s2s.distributed.strategy import Strategy
    from s2s.distributed.world import STORE, World, init, pick_device

__getattr__ = lazy_names(__name__, "world", "strategy", "ddp")
