"""Recurrent layers, and the guide of a model, as structures for the functions in C that run whole streams.

Shapes: V tokens, P places, E width of what is read at a place, H width of a layer.
"""

from __future__ import annotations

__all__ = ["FusedGuide", "RecurrentDecoder", "RecurrentEncoder", "accepts_cells", "accepts_guidance"]

from typing import TYPE_CHECKING, cast

import torch

from s2s_cpu.prepacked import PrepackedLinear, as_prepacked
from s2s_cpu.rules import WIDTH_MULTIPLE
from s2s_cpu.structs import EFFECTS, CellStruct, GuidanceStruct, LayerStruct, RecurrentLayerStruct, StackStruct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from s2s.backend import fused


class RecurrentEncoder:
    """Layers of LSTMs in one direction or both."""

    def __init__(self, layers: fused.FusedEncoder | fused.RecurrentLayers) -> None:
        """layers: cells, as `accepts_cells` has found."""
        self.cells = layers = cast("fused.RecurrentLayers", layers)  # own the memory that the structures point to
        self.layers = (RecurrentLayerStruct * len(layers))(*(RecurrentLayerStruct(*map(_cell, of)) for of in layers))
        self.stack = StackStruct()

    @property
    def width(self) -> int:
        """Of the output."""
        return sum(as_prepacked(cell.hidden).n_inputs for cell in self.cells[-1])

    def pointed_to(self) -> Iterator[Tensor]:
        """All tensors that the structures point to."""
        return _tensors(self.cells)


class RecurrentDecoder:
    """Layers of LSTMs, whose step is one function in C."""

    def __init__(self, layers: fused.FusedDecoder | fused.RecurrentLayers) -> None:
        """layers: one cell each, as `accepts_cells` has found."""
        self.cells = layers = cast("fused.RecurrentLayers", layers)  # own the memory that the structures point to
        self.layers = (LayerStruct * len(layers))(*(LayerStruct(cell=_cell(cell)) for (cell,) in layers))
        self.stack = StackStruct()

    def pointed_to(self) -> Iterator[Tensor]:
        """All tensors that the structures point to."""
        return _tensors(self.cells)


class FusedGuide:
    """A guide with labels, and what is read at its places."""

    def __init__(self, guidance: fused.FusedGuidance, n_tokens: int) -> None:
        """n_tokens: V. Raises ValueError where the functions would read outside of tables."""
        guide, n_places, (n_labels, *_) = guidance.guide, len(guidance.nothing), guidance.guide.kinds
        if len(guide.labels) != n_tokens or len(guide.effects) != n_tokens:
            raise ValueError(f"a guide needs {n_tokens} labels and effects, one of each token")
        if guide.depth < 0 or not all(0 <= label < n_labels for label in guide.labels):
            raise ValueError(f"a guide's depth must not be below 0, and its labels be from 0 to {n_labels - 1}")
        if tuple(guide.kinds) != (n_labels, n_labels, n_labels, 2) or not 2 <= n_places <= guide.n_places == 5:
            raise ValueError("a guide with labels has 5 places, the labels of 3 items, and one more kind of 2 values")
        if unknown := set(guide.effects) - set(EFFECTS):
            raise ValueError(f"a guide has effects that are not known: {', '.join(sorted(unknown))}")
        self.guidance = guidance  # own the memory that the structure points to
        self.effects = torch.tensor([EFFECTS.index(effect) for effect in guide.effects])
        self.labels = torch.tensor(list(guide.labels))
        kinds = None if guidance.kinds is None else guidance.kinds.data_ptr()
        self.struct = GuidanceStruct(
            *(self.effects.data_ptr(), self.labels.data_ptr()),
            *(n_labels, guide.depth, n_places),
            *(guidance.nothing.data_ptr(), kinds),
            *(as_prepacked(linear).struct for linear in (guidance.maps, guidance.out)),
        )

    def pointed_to(self) -> Iterator[Tensor]:
        """All tensors that the structure points to."""
        yield from (self.effects, self.labels, self.guidance.nothing)
        if self.guidance.kinds is not None:
            yield self.guidance.kinds
        for linear in (self.guidance.maps, self.guidance.out):
            yield from as_prepacked(linear).tensors.values()


def accepts_cells(layers: object, embedding: Tensor | None, width: int | None = None) -> bool:
    """Whether these are `RecurrentLayers` for the functions in C: all maps are prepacked, the first layer reads rows of
    an embedding, and the cells of a layer have one width, which fills whole vectors.

    width: that of all layers, if it is given.
    """
    if callable(layers) or embedding is None:
        return False
    cells, n_inputs = cast("fused.RecurrentLayers", layers), embedding.size(1)
    if not all(isinstance(linear, PrepackedLinear) for layer in cells for cell in layer for linear in cell):
        return False
    for layer in cells:
        own = as_prepacked(layer[0].hidden).n_inputs
        shapes = {(one.n_inputs, one.n_outputs) for cell in layer for one in map(as_prepacked, cell)}
        if own % WIDTH_MULTIPLE or shapes != {(n_inputs, 4 * own), (own, 4 * own)}:
            return False
        n_inputs = len(layer) * own
        if width not in (None, n_inputs):
            return False
    return True


def accepts_guidance(guidance: fused.FusedGuidance | None) -> bool:
    """The same of a guide's maps; vectors must be fp32 in one block of memory."""
    if guidance is None:
        return True
    vectors = [x for x in (guidance.nothing, guidance.kinds) if x is not None]
    readable = all(x.is_cpu and x.dtype is torch.float32 and x.is_contiguous() for x in vectors)
    return readable and all(isinstance(linear, PrepackedLinear) for linear in (guidance.maps, guidance.out))


def _cell(cell: fused.RecurrentCell) -> CellStruct:
    return CellStruct(*(as_prepacked(linear).struct for linear in cell))


def _tensors(layers: fused.RecurrentLayers) -> Iterator[Tensor]:
    for layer in layers:
        for cell in layer:
            for linear in cell:
                yield from as_prepacked(linear).tensors.values()
