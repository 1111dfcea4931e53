"""What the rest of training asks of the way in which the processes share a model."""

from __future__ import annotations

__all__ = ["Strategy"]

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torch import nn


class Strategy(Protocol):
    """Which parameters a process holds, and how the gradients of all of them become one."""

    needs_all: bool
    """Whether every process must run every micro-batch's forward and backward, be it without a pair of its own"""

    def place(self, model: nn.Module) -> None:
        """Take the parameters that are this process's own; the optimizer is built after that."""
        ...

    def learning(self, *, last: bool) -> AbstractContextManager[None]:
        """Around forward and backward of a micro-batch: only the `last` one of an update sends gradients."""
        ...

    def sum_gradients(self) -> None:
        """After the last micro-batch: every gradient is its sum over the processes."""
        ...

    def gathered(self, model: nn.Module) -> AbstractContextManager[None]:
        """Inside the block every process has all parameters, to decode with; they must not be learnt from."""
        ...
