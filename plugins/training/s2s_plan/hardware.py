"""The devices of a run as a recipe sees them: type, speed and free memory."""

from __future__ import annotations

__all__ = ["Hardware", "measure"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from s2s.config import TrainConfig
    from s2s.distributed import World


@dataclass(frozen=True)
class Hardware:
    """All devices of a run together, assumed to be identical."""

    device: str
    """Type of device, by torch's name"""
    n_devices: int
    """Processes, one device each"""
    n_threads: int
    """Threads of each process on a CPU"""
    fp32: float
    """Floating-point operations per second of large matrix products in fp32, summed over all devices"""
    bf16: float
    """The same in bf16"""
    memory: int
    """Bytes that each process can still allocate"""

    @property
    def is_fast_in_bf16(self) -> bool:
        """Whether bf16 saves so much time that a recipe chooses it."""
        return self.bf16 > 1.5 * self.fp32

    def describe(self) -> str:
        """2 CPU cores, 95 GFLOP/s"""
        n = self.n_devices * (self.n_threads if self.device == "cpu" else 1)
        what = "CPU core" if self.device == "cpu" else "GPU"
        return f"{n} {what}{'s' if n > 1 else ''}, {self.fp32 / 1e9:,.0f} GFLOP/s"


def measure(world: World, train: TrainConfig) -> Hardware:
    """The devices of these processes, measured with the settings of `train`; every process must call it."""
    import torch

    from s2s.backend import as_in_training, device_of, matmul_rate

    on_cpu = world.device.type == "cpu"
    with as_in_training(train, world.device):
        n_threads = torch.get_num_threads() if on_cpu else 0
        rates = [matmul_rate(world.device, dtype) for dtype in (torch.float32, torch.bfloat16)]
    measured = world.all_gather((*rates, device_of(world.device).free_memory()))
    return Hardware(
        device=world.device.type,
        n_devices=world.size,
        n_threads=n_threads,
        fp32=world.size * min(fp32 for fp32, _, _ in measured),
        bf16=world.size * min(bf16 for _, bf16, _ in measured),
        memory=int(min(memory for _, _, memory in measured)),
    )
