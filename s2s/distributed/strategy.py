"""The interface of a distributed strategy: how ranks share the parameters and gradients of one model."""

from __future__ import annotations

__all__ = ["Strategy"]

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torch import nn


class Strategy(Protocol):
    """Which parameters a rank holds, and how gradients are summed over the ranks."""

    needs_every_rank: bool
    """Whether every rank must run forward and backward of every micro-batch, even one that holds no pair of it"""

    def wrap(self, model: nn.Module) -> None:
        """Shard or hook the parameters; the optimizer is built afterwards."""
        ...

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        """Around forward and backward of a micro-batch: gradients are only reduced with the `last` one of an update."""
        ...

    def reduce_gradients(self) -> None:
        """After the last micro-batch: every gradient becomes its sum over the ranks."""
        ...

    def unsharded(self, model: nn.Module) -> AbstractContextManager[None]:
        """Inside the block every rank holds all parameters, for decoding; they must not be updated there."""
        ...
