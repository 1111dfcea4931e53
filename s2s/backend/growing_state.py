"""The buffers of decoding, which grow in few sizes: steps that are captured in CUDA graphs or run in C need room there.

Shapes: B sentences, K hypotheses of a sentence.
"""

from __future__ import annotations

__all__ = ["GrowingState", "bucket_size", "pad_to_beam"]

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

from s2s.backend.device_types import device_of
from s2s.model import State

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from s2s.tensors import Tree


class GrowingState(State, ABC):
    """A state with buffers that have room for some steps, and counters on the host of what is in use."""

    supports_capture: ClassVar[bool] = True

    @abstractmethod
    def buffers(self) -> Tree:
        """All that a captured step reads and writes: tensors [B, ...]; the first stays in place when reordered."""

    @abstractmethod
    def with_buffers(self, buffers: Tree) -> Self:
        """The same state with other tensors for those of `buffers`."""

    @abstractmethod
    def prepare_capture(self) -> Self | None:
        """The state with room for one more token in its buffers; None: the next step should not be captured."""

    @abstractmethod
    def at_capacity(self, beam: int) -> Self:
        """The state with its host-side counters at the buffers' capacity, so that a captured step covers every slot."""

    @abstractmethod
    def clear_rows(self, n: int) -> None:
        """Make the rows of the buffers from n on, which hold no sentence, safe for a step."""

    @abstractmethod
    def after_step(self, beam: int, n_steps: int = 1) -> Self:
        """The state with its host-side counters as after steps of `beam` hypotheses that were replayed, or run in C."""


def bucket_size(n: int, device: torch.device, minimum: int = 1) -> int:
    """The size to allocate for a dimension of at least `n`: n, or, where graphs are captured, the next of a few sizes.

    Four sizes for every doubling: at most a quarter is unused.
    """
    if not device_of(device).supports_graphs:
        return n
    n = max(n, minimum)
    step = max(minimum, 1 << max(0, (n - 1).bit_length() - 3))
    return -(-n // step) * step


def pad_to_beam(x: Tensor, beam: int) -> Tensor:
    """A tensor [B, beam, ...] whose memory begins with x [B, K, ...], followed by zeros; x itself if K is beam."""
    if x.size(1) == beam:
        return x
    room = x.new_zeros(len(x), beam, *x.shape[2:])
    room.view(-1)[: x.numel()] = x.flatten()
    return room
