"""How the ranks of a run share the parameters and gradients of one model."""

from __future__ import annotations

__all__ = ["OneProcess", "Sharding", "Unsharded"]

from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol, TypeVar

from torch.nn.utils import get_total_norm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from torch import Tensor, nn


T = TypeVar("T")


class Sharding(Protocol):
    """Which parameters a rank holds, and how gradients are summed over the ranks."""

    needs_every_rank: bool
    """Whether every rank must run forward and backward for every micro-batch, even if its own part is empty"""

    def wrap(self, model: nn.Module, objective: nn.Module | None = None) -> None:
        """Shard or hook the parameters, also those of an objective; the optimizer is built afterwards."""

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        """Context for forward and backward of a micro-batch: gradients are only reduced with an update's `last` one."""

    def reduce_gradients(self) -> None:
        """Replace every gradient by its sum over the ranks; called after the last micro-batch."""

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        """Euclidean norm, [], of the whole gradient, equal on all ranks; called after `reduce_gradients`."""

    def unsharded(self, module: nn.Module) -> AbstractContextManager[None]:
        """Inside the block every rank holds all parameters of the model, or of the objective, for decoding, say; they
        must not be updated there."""

    def full_tensors(self, tree: T) -> T:
        """A tree of tensors as a checkpoint holds them, unsharded on rank 0; every rank must call it."""

    def shard_like(self, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """This rank's parts of full tensors: the same shares as of the tensors of the same names in `like`."""


class Unsharded:
    """Base for a sharding in which every process holds all parameters."""

    needs_every_rank = False

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        """The norm of the gradients as they are."""
        return get_total_norm([p.grad for p in parameters if p.grad is not None])

    def unsharded(self, module: nn.Module) -> AbstractContextManager[None]:
        """Nothing to do."""
        return nullcontext()

    def full_tensors(self, tree: T) -> T:
        """The tree as given."""
        return tree

    def shard_like(self, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors as given."""
        return dict(tensors)


class OneProcess(Unsharded):
    """Training with one process: nothing is shared."""

    def wrap(self, model: nn.Module, objective: nn.Module | None = None) -> None:
        """Nothing to do."""

    def micro_batch(self, *, last: bool) -> AbstractContextManager[None]:
        """Gradients are accumulated."""
        return nullcontext()

    def reduce_gradients(self) -> None:
        """Nothing to do: the gradients are already the sums."""
