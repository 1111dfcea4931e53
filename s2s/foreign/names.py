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
    """A copy, which a file may have in addition or alone."""
    is_written: bool = True
    """Whether a file that is written has it."""

    def numbered(self, layer: int) -> TensorNames:
        """The names with {} replaced by the number of a layer."""
        foreign = [name.replace("{}", str(layer)) for name in self.foreign]
        return replace(self, native=self.native.replace("{}", str(layer)), foreign=foreign)

    def in_file(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether all parts are there."""
        return tensors.keys() >= set(self.foreign)

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
    ignored: Sequence[str] = ()
    """Tensors there that the other program ignores as well."""
    prefix: str = ""
    """Of most names there; files of the other program may leave it out everywhere."""

    def to_foreign(self, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """The model's tensors in the other format, one after the other; raises CheckpointError for
        one without a name there."""
        if unnamed := sorted(weights.keys() - {names.native for names in self.tensors}):
            raise CheckpointError(f"the format has no tensor for '{unnamed[0]}'{_more(unnamed)}")
        for names in self.tensors:
            if names.is_written:
                yield from names.split(weights[names.native]).items()

    def named(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """A file's tensors under the names in this table, with the prefix if the file has it nowhere."""
        if not self.prefix or any(name.startswith(self.prefix) for name in tensors):
            return tensors
        known = {name for names in self.tensors for name in names.foreign}
        known |= {*self.computed, *self.zeros, *self.ignored}
        return Renamed(tensors, {name if name in known else self.prefix + name: name for name in tensors})

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
        """Copy a file's tensors into a model's, such as its `state_dict()`, one after the other.

        `tensors` may read each when it is asked for, as `open_tensors` does: no second copy of the model is then held.
        Raises CheckpointError naming a tensor that is missing, unknown or of another shape; do not use the model then.
        """
        tensors = self.named(tensors)
        self._check_names(weights, tensors)
        for name in self.computed.keys() & tensors.keys():
            self._check_computed(name, tensors[name])
        for name in tensors.keys() & set(self.zeros):
            if tensors[name].any():
                raise CheckpointError(f"'{name}' is not zero, which this model cannot express")
        loaded_from: dict[str, str] = {}
        for names in self.tensors:
            if not names.in_file(tensors):
                continue  # there is a copy
            target = weights[names.native]
            tensor = names.join(tensors, names.split(target.to("meta")))
            if names.native not in loaded_from:
                target.copy_(tensor)  # of any dtype, converted without a copy in between
            elif not torch.equal(target, tensor.to(target)):
                other = loaded_from[names.native]
                raise CheckpointError(f"'{names.foreign[0]}' differs from '{other}', but the model has one for both")
            loaded_from.setdefault(names.native, names.foreign[0])

    def _check_names(self, weights: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
        known = {name for names in self.tensors for name in names.foreign}
        copied = {names.native for names in self.tensors if names.optional and names.in_file(tensors)}
        required = {
            name
            for names in self.tensors
            if not names.optional and names.native not in copied
            for name in names.foreign
        }
        problems = {
            "is missing": required - tensors.keys(),
            "is unknown here": tensors.keys() - known - self.computed.keys() - {*self.zeros, *self.ignored},
            "is not in the table of names": weights.keys() - {names.native for names in self.tensors},
        }
        for what, names in problems.items():
            if names:
                raise CheckpointError(f"'{min(names)}' {what}{_more(names)}")

    def _check_computed(self, name: str, tensor: Tensor) -> None:
        expected = self.computed[name](len(tensor))
        tolerance = max(TOLERANCE, torch.finfo(tensor.dtype).eps) if tensor.is_floating_point() else 0
        if expected.shape != tensor.shape or not torch.allclose(expected, tensor.to(expected), atol=tolerance):
            raise CheckpointError(f"'{name}' is not what this model computes in its place")


class Renamed(Mapping[str, Tensor]):
    """Tensors under other names, each read when it is asked for."""

    def __init__(self, tensors: Mapping[str, Tensor], names: Mapping[str, str]) -> None:
        self.tensors, self.names = tensors, names

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[self.names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _more(names: Sequence[str] | set[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""
