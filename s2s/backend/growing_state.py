"""States whose buffers grow as they are decoded: steps that are captured in CUDA graphs or run in C need room there.

Shapes: B sentences, K hypotheses of a sentence.
"""

from __future__ import annotations

__all__ = ["GrowingState"]

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

from s2s.model import State

if TYPE_CHECKING:
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
