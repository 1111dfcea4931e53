"""A recurrent model as what functions for a whole search take, where a plugin provides them."""

from __future__ import annotations

__all__ = ["fused_search"]

from typing import TYPE_CHECKING

from torch import nn

from s2s.backend import fused, linear
from s2s_recurrent.cells import LSTM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s_recurrent.cells import Cell
    from s2s_recurrent.encoder import Layer
    from s2s_recurrent.model import RNN


def fused_search(model: RNN) -> fused.StreamSearch | None:
    """The whole search of a model of plain LSTMs whose decoder reads the source by a guide alone; None: there is no
    such function for its configuration, or for the present form of its weights."""
    config, (column, *others) = model.config, model.encoder.columns
    plain = config.attention == "none" and config.readout == "none" and config.start == "zero"
    plain = plain and not (others or config.reverse_source or config.fast_forward or config.residual_from)
    guidance = model.guidance.fused() if model.guidance else None
    layers: list[Layer] = list(column.layers)
    if not plain or guidance is None:
        return None
    encoder, decoder = [_cells(layer.cells) for layer in layers], [_cells([cell]) for cell in model.decoder.layers]
    if not all((*encoder, *decoder)):
        return None
    src, tgt = (table.weight.detach() for table in (model.src, model.tgt))
    words = model.words.fused(pooled=config.words == "pooled")
    labels = linear.linear_function(model.labels.map) if model.labels else None
    source = fused.FusedSource(encoder, len(src), src, 1.0, [], words, labels)
    target = fused.FusedModel(decoder, tgt, 1.0, linear.linear_function(model.softmax), guidance=guidance)
    return fused.stream_search(source, target, fused.PositionTables(lambda _: None, lambda _: None))


def _cells(cells: Iterable[Cell]) -> list[fused.RecurrentCell]:
    """Empty for those that are more than their two maps."""
    found = []
    for cell in cells:
        projected = isinstance(cell, LSTM) and not isinstance(cell.projection, nn.Identity)
        if type(cell) is not LSTM or projected or not isinstance(cell.expand, nn.Identity):
            return []
        found.append(fused.RecurrentCell(linear.linear_function(cell.input), linear.linear_function(cell.hidden)))
    return found
