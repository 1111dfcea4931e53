"""The names and layouts of tensors here and in another program's format.

Shapes: V vocabulary, D width of a model, O and I output and input width of a linear map.
"""

from __future__ import annotations

__all__ = ["Layout", "NameTable", "TensorNames"]

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from s2s.errors import CheckpointError

TOLERANCE = 1e-4
"""Largest difference of a computed tensor, such as sinusoids, in a file from what is computed here"""


class Layout(NamedTuple):
    """Another layout of a tensor, and the way back."""

    to_foreign: Callable[[Tensor], Tensor]
    to_native: Callable[[Tensor], Tensor]

    @classmethod
    def permuted(cls, order: Tensor, dim: int) -> Layout:
        """Index i of dimension `dim` there is index order[i] here."""
        inverse = order.argsort()
        return cls(
            lambda x: x.index_select(dim, order.to(x.device)), lambda x: x.index_select(dim, inverse.to(x.device))
        )

    @classmethod
    def transposed(cls) -> Layout:
        """[O, I] here, [I, O] there."""
        return cls(lambda x: x.t(), lambda x: x.t())

    @classmethod
    def row(cls) -> Layout:
        """[V] here, [1, V] there."""
        return cls(lambda x: x[None], lambda x: x.squeeze(0))

    @classmethod
    def scaled(cls, factor: float) -> Layout:
        """Multiplied by `factor` there."""
        return cls(lambda x: x * factor, lambda x: x / factor)


@dataclass(frozen=True)
class TensorNames:
    """A tensor here and the tensor there, or several that are its equal parts, one below the other."""

    native: str
    foreign: Sequence[str]
    layouts: Sequence[Layout] = ()
    """Of each part, applied one after the other on the way out."""
    optional: bool = False
    """A file may leave it out, such as a copy of a shared matrix."""

    def numbered(self, layer: int) -> TensorNames:
        """The names with {} replaced by the number of a layer."""
        foreign = [name.replace("{}", str(layer)) for name in self.foreign]
        return replace(self, native=self.native.replace("{}", str(layer)), foreign=foreign)

    def split(self, tensor: Tensor) -> dict[str, Tensor]:
        """The tensor here -> the tensors there."""
        parts = tensor.chunk(len(self.foreign))
        for layout in self.layouts:
            parts = tuple(layout.to_foreign(part) for part in parts)
        return dict(zip(self.foreign, parts, strict=True))

    def join(self, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> Tensor:
        """The tensors there -> the tensor here; raises CheckpointError for another shape than `expected`."""
        parts = []
        for name in self.foreign:
            part, shape = tensors[name], list(expected[name].shape)
            if list(part.shape) != shape:
                raise CheckpointError(f"'{name}' is {list(part.shape)}, but '{self.native}' needs {shape}")
            for layout in reversed(self.layouts):
                part = layout.to_native(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else torch.cat(parts)


@dataclass(frozen=True)
class NameTable:
    """All tensors of a model."""

    tensors: Sequence[TensorNames]
    """A tensor here may have several rows: the tensors there must then be equal."""
    computed: Mapping[str, Callable[[int], Tensor]] = field(default_factory=dict)
    """Tensors there that follow from the options, such as sinusoids, as functions of their number of rows."""
    zeros: Sequence[str] = ()
    """Tensors there that this model does not have and that must be zero."""

    def to_foreign(self, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """The model's tensors in the other format, one after the other; raises CheckpointError for one without a name
        there."""
        if unnamed := sorted(weights.keys() - {names.native for names in self.tensors}):
            raise CheckpointError(f"the format has no tensor for '{unnamed[0]}'{_more(unnamed)}")
        for names in self.tensors:
            yield from names.split(weights[names.native]).items()

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
        """Copy a file's tensors into a model's, such as its `state_dict()`, one after the other.

        `tensors` may read each when it is asked for, as `open_tensors` does: no second copy of the model is then held.
        Raises CheckpointError naming a tensor that is missing, unknown or of another shape; do not use the model then.
        """
        self._check_names(weights, tensors)
        for name in self.computed.keys() & tensors.keys():
            self._check_computed(name, tensors[name])
        for name in tensors.keys() & set(self.zeros):
            if tensors[name].any():
                raise CheckpointError(f"'{name}' is not zero, which this model cannot express")
        loaded_from: dict[str, str] = {}
        for names in self.tensors:
            if names.optional and not tensors.keys() >= set(names.foreign):
                continue
            target = weights[names.native]
            tensor = names.join(tensors, names.split(target.to("meta"))).to(target)
            if names.native not in loaded_from:
                target.copy_(tensor)
            elif not torch.equal(target, tensor):
                other = loaded_from[names.native]
                raise CheckpointError(f"'{names.foreign[0]}' differs from '{other}', but the model has one for both")
            loaded_from.setdefault(names.native, names.foreign[0])

    def _check_names(self, weights: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
        known = {name for names in self.tensors for name in names.foreign}
        required = {name for names in self.tensors if not names.optional for name in names.foreign}
        problems = {
            "is missing": required - tensors.keys(),
            "is unknown here": tensors.keys() - known - self.computed.keys() - set(self.zeros),
            "is not in the table of names": weights.keys() - {names.native for names in self.tensors},
        }
        for what, names in problems.items():
            if names:
                raise CheckpointError(f"'{min(names)}' {what}{_more(names)}")

    def _check_computed(self, name: str, tensor: Tensor) -> None:
        expected = self.computed[name](len(tensor))
        if expected.shape != tensor.shape or not torch.allclose(expected, tensor.to(expected), atol=TOLERANCE):
            raise CheckpointError(f"'{name}' is not what this model computes in its place")


def _more(names: Sequence[str] | set[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""
