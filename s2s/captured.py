"""A function of a batch recorded once as a CUDA graph and replayed: a thousand kernels for the price of one launch.

A graph reads and writes where it did when it was recorded: so batches are copied into the tensors of the first one,
and gradients accumulate where they lie, and are zeroed there.
"""

from __future__ import annotations

__all__ = ["Captured", "Record", "record", "recurring"]

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.model import map_tensors

if TYPE_CHECKING:
    from s2s.batch import Batch

Learn = Callable[["Batch", Tensor], Tensor]
"""A batch and a factor of its loss, 0-dim -> sums; gradients are added to what is there"""
Record = Callable[[Callable[[], Tensor]], tuple[Callable[[], None], Tensor]]
"""What runs a function once and for all -> how to run it again, and where its result then is"""
GRAPHED = ("cuda",)
"""Devices on which functions are recorded"""
N_WARM_UP = 3
"""Runs before the recording, in which libraries and the compiler choose their kernels"""


class Captured:
    """`learn`, recorded for each shape of batch that comes."""

    def __init__(self, learn: Learn, record: Record) -> None:
        self.learn, self.record = learn, record
        self.recorded: dict[tuple[torch.Size, ...], tuple[list[Tensor], Callable[[], None], Tensor]] = {}

    def prepare(self, batch: Batch) -> None:
        """Record the batch's shape, if it is new; gradients then hold nonsense, and must be zeroed in place."""
        own = _tensors(batch)
        if (shape := _shape(own)) in self.recorded:
            return
        fixed = map_tensors(torch.clone, batch)
        factor = torch.zeros((), device=own[0].device)
        replay, result = self.record(lambda: self.learn(fixed, factor))
        self.recorded[shape] = [*_tensors(fixed), factor], replay, result

    def __call__(self, batch: Batch, factor: Tensor) -> Tensor:
        """The same as `learn`, for a batch that was prepared."""
        given = _tensors(batch)
        fixed, replay, result = self.recorded[_shape(given)]
        for old, new in zip(fixed, [*given, factor], strict=True):
            old.copy_(new, non_blocking=True)
        replay()
        return result.clone()


def record(function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    """Record a function as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(N_WARM_UP):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()
    return graph.replay, result


def recurring(n: int, device: torch.device, least: int = 1) -> int:
    """The size to give to a dimension of at least `n`: n, or where functions are recorded, the next of few that recur.

    Four sizes for every doubling: at most a quarter is waste.
    """
    if device.type not in GRAPHED:
        return n
    n = max(n, least)
    part = max(least, 1 << max(0, (n - 1).bit_length() - 3))
    return -(-n // part) * part


def _tensors(batch: Batch) -> list[Tensor]:
    """All tensors of a batch, in a constant order."""
    found: list[Tensor] = []

    def see(t: Tensor) -> Tensor:
        found.append(t)
        return t

    map_tensors(see, batch)
    return found


def _shape(tensors: list[Tensor]) -> tuple[torch.Size, ...]:
    return tuple(t.shape for t in tensors)
