"""Recurrent layers as what functions for a whole search take, where a plugin provides them."""

from __future__ import annotations

__all__ = ["fused_layers"]

from typing import TYPE_CHECKING

from torch import nn

from s2s.backend import fused, linear
from s2s_recurrent.cells import LSTM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s_recurrent import RNNConfig
    from s2s_recurrent.cells import Cell
    from s2s_recurrent.decoder import Decoder
    from s2s_recurrent.encoder import Encoder


def fused_layers(
    config: RNNConfig, encoder: Encoder, decoder: Decoder
) -> tuple[fused.RecurrentLayers, fused.RecurrentLayers] | None:
    """Those of both, if they are plain LSTMs, and the decoder begins with zeros and has no attention; else None."""
    column, *others = encoder.columns
    plain = config.attention == "none" and config.readout == "none" and config.start == "zero"
    if not plain or others or config.reverse_source or config.fast_forward or config.residual_from:
        return None
    layers = [_cells(layer.cells) for layer in column.layers], [_cells([cell]) for cell in decoder.layers]
    return layers if all(map(all, layers)) else None


def _cells(cells: Iterable[Cell]) -> list[fused.RecurrentCell]:
    """Empty for those that are more than their two maps."""
    found = []
    for cell in cells:
        projected = isinstance(cell, LSTM) and not isinstance(cell.projection, nn.Identity)
        if type(cell) is not LSTM or projected or not isinstance(cell.expand, nn.Identity):
            return []
        found.append(fused.RecurrentCell(linear.linear_function(cell.input), linear.linear_function(cell.hidden)))
    return found
