"""Several processes that train one model; with one process, nothing communicates.

A `World` is the process group: this rank and the collectives. A `Strategy` is what each rank holds: all parameters, or
a shard of each. Plugins bring both. Gradients are summed, never averaged: each is already divided by the normaliser of
the global batch.
"""

from __future__ import annotations

__all__ = ["STORE", "OneProcess", "Strategy", "Unsharded", "World", "init", "pick_device"]

from s2s.distributed.strategy import OneProcess, Strategy, Unsharded
from s2s.distributed.world import STORE, World, init, pick_device
