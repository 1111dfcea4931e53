"""Several processes that train one model, started by torchrun; with one process, nothing here communicates.

A `World` is the process group: this rank, the collectives, the watchdog. A `Strategy` is what each rank holds: all
parameters (`DDP`, train.strategy=ddp) or a shard of each (`FSDP`, fsdp). Gradients are summed, never averaged: each is
already divided by the normaliser of the global batch.
"""

from __future__ import annotations

__all__ = ["DDP", "FSDP", "STORE", "Strategy", "World", "full_tensors", "init", "pick_device", "shard_like"]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.distributed.ddp import DDP
    from s2s.distributed.fsdp import FSDP, full_tensors, shard_like
    from s2s.distributed.strategy import Strategy
    from s2s.distributed.world import STORE, World, init, pick_device

__getattr__ = lazy_names(__name__, "world", "strategy", "ddp", "fsdp")
"""torch's FSDP loads sympy and more, which takes longer than the rest of torch; one process needs none of it."""
