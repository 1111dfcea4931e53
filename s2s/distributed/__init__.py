"""Several processes training one model; with one process, nothing communicates.

A `World` is the process group: this rank and the collectives. A `Strategy` is what each rank holds: all parameters, or
a shard of each. Plugins provide both. Gradients are summed, never averaged: each is already divided by the normaliser
of the global batch.
"""

from __future__ import annotations

__all__ = ["STORE", "Bucket", "OneProcess", "Strategy", "Unsharded", "World", "init", "make_buckets", "pick_device"]

from typing import TYPE_CHECKING

from s2s.distributed.strategy import OneProcess, Strategy, Unsharded
from s2s.distributed.world import STORE, World, init, pick_device
from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.distributed.buckets import Bucket, make_buckets

__getattr__ = lazy_names(__name__, "buckets")  # imports torch.distributed, which a single process does not need
