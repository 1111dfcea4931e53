"""Several processes that train one model, started by torchrun; or one, and then nothing here does anything.

A `World` is who they are and how they agree. A strategy is what each of them holds: all parameters (`Replicated`,
train.strategy=ddp) or a part of each (`Sharded`, fsdp). Gradients are summed, never averaged: each is already divided
by the target symbols of the global batch.
"""

from __future__ import annotations

__all__ = ["Replicated", "Sharded", "Strategy", "World", "init", "parts", "pick_device", "whole"]

from s2s.distributed.replicated import Replicated
from s2s.distributed.sharded import Sharded, parts, whole
from s2s.distributed.strategy import Strategy
from s2s.distributed.world import World, init, pick_device
