"""Linear maps whose weights are prepacked once for decoding: the available backends, and the operators.

Shapes: I inputs, O outputs.
"""

from __future__ import annotations

__all__ = [
    "NO_MULTIPLIERS",
    "HasPrepacked",
    "HasSelect",
    "HasTable",
    "HasWeightRows",
    "Int8Multipliers",
    "LinearBackend",
    "LinearMap",
    "Quantization",
    "WeightAndBias",
    "apply_feed_forward",
    "apply_linear",
    "deterministic_backend",
    "has_int8",
    "linear_function",
    "prepack",
]

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, cast, runtime_checkable

from torch import Tensor, nn
from torch.nn import functional as F

from s2s.backend.operators.operator import Operator
from s2s.errors import ConfigError

LinearMap = Callable[[Tensor], Tensor]
"""[..., I] -> [..., O]"""
WeightAndBias = tuple[Tensor, Tensor | None]
"""[O, I], [O]"""
LinearBackend = Literal["auto", "exact", "torch", "onednn", "native"]
Quantization = Literal["none", "bf16", "int8"]


class Int8Multipliers(NamedTuple):
    """How the file of a published model makes 8-bit integers of a matrix and of its inputs."""

    weights: Tensor
    """[O], what the rows of W are multiplied by to be the integers of the file"""
    inputs: Tensor
    """[O], what inputs are multiplied by, before they are rounded; 0: not recorded"""


NO_MULTIPLIERS: Mapping[Tensor, Int8Multipliers] = MappingProxyType({})


@runtime_checkable
class HasPrepacked(Protocol):
    """A module that multiplies by a weight in its own way, or calls `prepacked` instead if that is set."""

    prepacked: LinearMap | None

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """[O, I], [O]"""


@runtime_checkable
class HasWeightRows(Protocol):
    """A linear map that can return rows of its weight."""

    def weight_rows(self, ids: Tensor) -> Tensor:
        """[...] -> [..., I]"""


@runtime_checkable
class HasSelect(Protocol):
    """A linear map of which some outputs can be computed alone."""

    def select(self, ids: Tensor) -> LinearMap:
        """[U] -> a map of [..., I] to [..., U]"""


@runtime_checkable
class HasTable(HasPrepacked, Protocol):
    """A module whose weight is also a table in which it looks up rows."""

    def free_table(self) -> None:
        """Look up rows in `prepacked`, which has `weight_rows`, from now on; the table itself is freed if possible."""


@Operator
def apply_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x [..., I], weight [O, I], bias [O] -> [..., O]"""
    return F.linear(x, weight, bias)


@Operator
def apply_feed_forward(x: Tensor, inner: WeightAndBias, out: WeightAndBias) -> Tensor:
    """max(0, x W1^T + b1) W2^T + b2: x [..., I], inner [H, I] and [H], out [O, H] and [O] -> [..., O]"""
    return apply_linear(F.relu(apply_linear(x, *inner)), *out)


@Operator
def prepack(
    model: nn.Module,
    backend: LinearBackend,
    quantization: Quantization,
    recorded: Mapping[Tensor, Int8Multipliers] = NO_MULTIPLIERS,
) -> str:
    """Prepack the weights of a model's linear maps for decoding; it can then be neither trained nor saved.

    These are modules of `s2s.nn.linear`, whose own weights are freed; `HasTable`, whose weights may be freed; and
    plain nn.Linear, which keep theirs. All others are left alone, since a subclass of nn.Linear may compute something
    else. Returns a description of what was done.

    recorded: for parameters that are such weights, their multipliers in int8; others get scales of their own.
    """
    del model, recorded
    if quantization != "none":
        raise ConfigError(f"quantization={quantization}: no plugin has such linear maps for this; leave the option out")
    if backend not in ("auto", "exact", "torch"):
        raise ConfigError(f"matmul={backend}: no plugin has such linear maps for this; leave the option out")
    return f"linear maps by torch ({'matmul=torch' if backend == 'torch' else 'no plugin has others'})"


@Operator
def has_int8() -> bool:
    """Whether there are linear maps in 8-bit integers here."""
    return False


@Operator
def deterministic_backend(model: nn.Module) -> LinearBackend:
    """The preferred backend that is accurate here, without timing: another process must make the same choice."""
    del model
    return "torch"


def linear_function(module: nn.Module) -> LinearMap:
    """The function that currently computes a linear map."""
    return (isinstance(module, HasPrepacked) and module.prepacked) or cast("LinearMap", module.forward)
