"""The contract of a device: its memory, its types, and what else differs between kinds of devices."""

from __future__ import annotations

__all__ = ["Device"]

import time
from typing import TYPE_CHECKING, Any

import torch

from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from torch import Tensor

    from s2s.registry import Choice


PRECISIONS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


class Device:
    """One device. The defaults hold for what torch calls an accelerator, and assume nothing else of it.

    A plugin registers a subclass in the group `device`, under the name that torch has for the type.
    """

    wide_dtype: torch.dtype = torch.float64
    """The widest floating-point type, for sums over a batch and for angles of positions"""
    autocast_dtypes: tuple[torch.dtype, ...] = (torch.bfloat16, torch.float16)
    """Types of train.precision and precision besides fp32"""
    collectives: str = "gloo"
    """The library with which several processes communicate, by torch.distributed's name"""
    matmul_width: int = 8192
    """Width of the square matrices with which the rate of products is measured"""
    search_tokens: int = 4000
    """Source tokens decoded at once by default"""
    pins_memory: bool = False
    """Whether copies from pinned memory of the host to the device are asynchronous"""
    supports_graphs: bool = False
    """Whether `capture` exists; sizes of buffers are then rounded, so that few graphs are captured"""
    has_fused_optimizers: bool = False
    """Whether torch's optimizers have one kernel for all parameters"""
    has_recurrent_kernels: bool = False
    """Whether torch's kernel for a whole LSTM or GRU is faster than a loop over its steps"""

    def __init__(self, config: Choice, device: torch.device) -> None:
        """Registered types have no options: a device is named by a text such as cuda:1."""
        del config
        self.device = device

    def count(self) -> int:
        """Devices of this type that can be used here; 0: none."""
        module: Any = getattr(torch, self.device.type, None)  # such as torch.xpu; absent until a package is imported
        return int(module.device_count()) if module and module.is_available() else 0

    def hardware(self) -> str:
        """The name of the hardware, for env.json; by default that of the type."""
        return self.device.type

    def select(self) -> None:
        """Make it the current device of this process."""
        torch.accelerator.set_device_index(self.device)

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        torch.accelerator.synchronize(self.device)

    def clock(self) -> float:
        """Seconds from an arbitrary start, read when the device is idle: those of this process's own work if the device
        counts them, as a CPU does, else those of the clock on the wall."""
        return time.perf_counter()

    def free_memory(self) -> int:
        """Bytes that can still be allocated, those included that torch holds unused."""
        unused = torch.accelerator.memory_reserved(self.device) - torch.accelerator.memory_allocated(self.device)
        return int(torch.accelerator.get_memory_info(self.device)[0]) + unused

    def peak_memory(self) -> int:
        """Largest number of bytes in use since the start or the last reset."""
        return int(torch.accelerator.max_memory_allocated(self.device))

    def can_measure_peak(self) -> bool:
        """Whether `reset_peak_memory` works here."""
        return True

    def reset_peak_memory(self) -> None:
        """Measure the peak from now on."""
        torch.accelerator.reset_peak_memory_stats(self.device)

    def empty_cache(self) -> None:
        """Return the memory that torch holds unused, after an allocation has failed."""
        torch.accelerator.empty_cache()

    def is_memory_error(self, error: BaseException) -> bool:
        """Whether an allocation has failed, so that smaller micro-batches may help; by default torch's own errors."""
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return True
        return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)

    def has_varlen_attention(self, dtype: torch.dtype) -> bool:
        """Whether torch has flash attention of packed sentences (varlen) for this type."""
        del dtype
        return False

    def capture(self, function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """Run a function -> how to replay it, and the tensor that each replay writes its result to."""
        raise NotImplementedError(f"{self.device}: supports_graphs is False")

    def autocast(self, dtype: torch.dtype) -> torch.autocast:
        """The context of a forward pass in `dtype`; raises ConfigError if the device does not have it."""
        if dtype not in (torch.float32, *self.autocast_dtypes):
            known = ", ".join(PRECISIONS[one] for one in (torch.float32, *self.autocast_dtypes))
            raise ConfigError(f"precision={PRECISIONS[dtype]}: {self.device} computes in {known} only")
        return torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32)

    def manual_seed(self, seed: int) -> None:
        """Seed the random numbers of host and device."""
        torch.manual_seed(seed)

    def fork_rng(self) -> AbstractContextManager[None]:
        """Restores the random states of host and device after the block."""
        return torch.random.fork_rng([self.device], device_type=self.device.type)
