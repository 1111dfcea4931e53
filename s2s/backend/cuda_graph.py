"""A function of a batch, captured once as a CUDA graph and replayed: a thousand kernels for the price of one launch.

A graph reads and writes the memory that it was captured with: so batches are copied into the tensors of the first one,
and gradients are accumulated and zeroed in place.
"""

from __future__ import annotations

__all__ = ["CUDAGraphCallable", "Capture", "graph_decoding"]

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.backend.operators.operator import Operator
from s2s.tensors import list_tensors, map_tensors

if TYPE_CHECKING:
    from s2s.batch import Batch
    from s2s.model import Seq2Seq

Backward = Callable[["Batch", Tensor], Tensor]
"""A batch and a factor of its loss, 0-dim -> sums; adds to the gradients"""
Capture = Callable[[Callable[[], Tensor]], tuple[Callable[[], None], Tensor]]
"""Runs a function -> how to replay it, and the tensor that each replay writes its result to"""


class CUDAGraphCallable:
    """`function` of a batch, captured once for each batch shape."""

    def __init__(self, function: Backward, capture: Capture) -> None:
        self.function, self.capture = function, capture
        self.graphs: dict[tuple[torch.Size, ...], tuple[list[Tensor], Callable[[], None], Tensor]] = {}

    def prepare(self, batch: Batch) -> None:
        """Capture the batch's shape, if it is new; gradients are arbitrary afterwards, and must be zeroed in place."""
        inputs = list_tensors(batch)
        if (shape := _shape(inputs)) in self.graphs:
            return
        static = map_tensors(torch.clone, batch)
        factor = torch.zeros((), device=inputs[0].device)
        replay, result = self.capture(lambda: self.function(static, factor))
        self.graphs[shape] = [*list_tensors(static), factor], replay, result

    def __call__(self, batch: Batch, factor: Tensor) -> Tensor:
        """The same as `function`, for a batch whose shape was prepared."""
        inputs = list_tensors(batch)
        static, replay, result = self.graphs[_shape(inputs)]
        for old, new in zip(static, [*inputs, factor], strict=True):
            old.copy_(new, non_blocking=True)
        replay()
        return result.clone()


@Operator
def graph_decoding(model: Seq2Seq) -> bool:
    """Capture a model's decoding steps, if its states and a plugin support that; returns whether they do.

    Only one search at a time may then use the model.
    """
    del model
    return False


def _shape(tensors: list[Tensor]) -> tuple[torch.Size, ...]:
    return tuple(t.shape for t in tensors)
