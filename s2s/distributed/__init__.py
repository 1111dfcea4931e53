"""Several processes training one model; with one process, nothing communicates.

A `Strategy` starts the processes and lets them find each other; a `World` is the process group, this rank and the
collectives; a `Sharding` is what each rank holds: all parameters, or a shard of each. Plugins provide all three.
Gradients are summed, never averaged: each is already divided by the normaliser of the global batch.
"""

from __future__ import annotations

__all__ = ["Bucket", "Sharding", "Strategy", "Unsharded", "World", "make_buckets", "pick_device"]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.distributed.buckets import Bucket, make_buckets
    from s2s.distributed.sharding import Sharding, Unsharded
    from s2s.distributed.strategy import Strategy
    from s2s.distributed.world import World, pick_device

__getattr__ = lazy_names(__name__, "strategy", "world", "sharding", "buckets")
