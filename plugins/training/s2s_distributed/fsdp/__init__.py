"""train.strategy=fsdp: each process holds a shard of every parameter. No torch at import."""

from __future__ import annotations

__all__ = ["FSDPConfig", "s2s_register"]

from dataclasses import dataclass

from s2s import Choice, Registry, hookimpl


@dataclass(kw_only=True)
class FSDPConfig(Choice):
    """Fully sharded data parallelism, torch's FSDP2."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("strategy", "fsdp", FSDPConfig, "s2s_distributed.fsdp.strategy:FSDP")
