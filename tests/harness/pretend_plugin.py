"""A third party's plugin that registers a device: that of `pretend_device`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

import s2s
from harness.pretend_device import NAME, State, register
from s2s.backend import Device, available_memory

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


@dataclass(kw_only=True)
class PretendConfig(s2s.Choice):
    """A device in Python."""


class Pretend(Device):
    """Its memory and random numbers are the host's."""

    has_fused_optimizers = True

    def __init__(self, config: PretendConfig, device: torch.device) -> None:
        super().__init__(config, device)
        self.wide_dtype = torch.float64 if State.float64 else torch.float32

    def hardware(self) -> str:
        return "Python"

    def synchronize(self) -> None:
        """Operators return when they are done."""

    def free_memory(self) -> int:
        return available_memory().n_bytes

    def peak_memory(self) -> int:
        return 0

    def can_measure_peak(self) -> bool:
        return False

    def fork_rng(self) -> AbstractContextManager[None]:
        return torch.random.fork_rng([])


@s2s.hookimpl
def s2s_register(registry: s2s.Registry) -> None:
    register()
    registry.add("device", NAME, PretendConfig, Pretend)
