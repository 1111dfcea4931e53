"""The encoder: columns of recurrent layers, each of which reads from the left, the right, or both.

Shapes: B sentences, S source length, E embedding width, M width of the memory.
"""

from __future__ import annotations

__all__ = ["Encoder", "connect", "connected_width", "d_memory", "modules"]

from typing import TYPE_CHECKING, TypeVar, cast

import torch
from torch import Tensor, nn

from s2s import ConfigError
from s2s.nn import Dropout
from s2s_recurrent.cells import Cell, Hidden, make_cell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s_recurrent import RNNConfig


class Encoder(nn.Module):
    """All columns, whose outputs for a token are concatenated."""

    def __init__(self, config: RNNConfig, d_in: int) -> None:
        super().__init__()
        self.columns = modules(Column(config, d_in, directions) for directions in columns(config))

    def forward(self, x: Tensor, pad: Tensor) -> tuple[Tensor, list[Hidden]]:
        """[B, S, E], pad [B, S] -> memory [B, S, M], 0 at padding; the last column's state of each layer at its end."""
        lengths = (~pad).sum(1).clamp(min=1)
        outputs = [column(x, lengths, reversal(lengths, x.size(1))) for column in self.columns]
        hidden = torch.cat([hidden for hidden, _ in outputs], dim=-1)
        return hidden.masked_fill(pad[..., None], 0.0), outputs[-1][1]


class Column(nn.Module):
    """A stack of layers."""

    def __init__(self, config: RNNConfig, d_in: int, directions: list[str]) -> None:
        super().__init__()
        self.config = config
        layers = []
        for index, names in enumerate(directions):
            layers.append(Layer(config, d_in, names))
            d_in = connected_width(config, index, d_in, layers[-1].cells, "encoder")
        self.layers, self.d_out = modules(layers), d_in
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, lengths: Tensor, mirror: Tensor) -> tuple[Tensor, list[Hidden]]:
        """[B, S, E] -> [B, S, M] and the last state of each layer, of its backward cell if it has two."""
        finals = []
        for index, layer in enumerate(self.layers):
            h, parts, final = layer(x, lengths, mirror)
            x = connect(self.config, index, x, self.dropout(h), parts)
            finals.append(final)
        return x, finals


class Layer(nn.Module):
    """A cell for each direction, "f" or "b" or "fb"."""

    def __init__(self, config: RNNConfig, d_in: int, directions: str) -> None:
        super().__init__()
        self.directions, self.wants_final = directions, config.start != "zero"
        self.cells = modules(make_cell(d_in, config) for _ in directions)

    def forward(self, x: Tensor, lengths: Tensor, mirror: Tensor) -> tuple[Tensor, Tensor | None, Hidden]:
        """[B, S, I] -> outputs and inputs' parts, both directions concatenated, and the last cell's last state, which
        is correct only if the decoder starts from it."""
        outputs, parts = [], []
        for cell, direction in zip(self.cells, self.directions, strict=True):
            start = cell.zero(len(x), like=x)
            backward = direction == "b"
            h, part, final = cell(reverse(x, mirror) if backward else x, start, lengths if self.wants_final else None)
            outputs.append(reverse(h, mirror) if backward else h)
            if part is not None:
                parts.append(reverse(part, mirror) if backward else part)
        return torch.cat(outputs, dim=-1), torch.cat(parts, dim=-1) if parts else None, final


def columns(config: RNNConfig) -> list[list[str]]:
    """The directions of each layer in each column."""
    n = config.n_encoder_layers
    forms = {
        "forward": [["f"] * n],
        "bidirectional": [["fb"] * n],
        "first": [["fb", *["f"] * (n - 1)]],
        "interleaved": [["fb"[i % 2] for i in range(n)], ["bf"[i % 2] for i in range(n)]],
    }
    swapped = str.maketrans("fb", "bf") if config.reverse_source else {}
    return [[names.translate(swapped) for names in column] for column in forms[config.directions]]


def reversal(lengths: Tensor, n: int) -> Tensor:
    """lengths [B] -> indices [B, n] that reverse each sentence and leave its padding where it is."""
    position = torch.arange(n, device=lengths.device)
    return torch.where(position < lengths[:, None], lengths[:, None] - 1 - position, position)


def reverse(x: Tensor, mirror: Tensor) -> Tensor:
    """[B, S, ·] -> [B, S, ·]; its own inverse."""
    return x.gather(1, mirror[..., None].expand(-1, -1, x.size(-1)))


def connect(config: RNNConfig, index: int, x: Tensor, h: Tensor, parts: Tensor | None) -> Tensor:
    """The next layer's input, from a layer's input x, output h and, with fast_forward, the gates' parts of x."""
    if config.fast_forward:
        assert parts is not None
        return torch.cat([parts, h], dim=-1)
    return h + x if 0 < config.residual_from <= index + 1 else h


def connected_width(config: RNNConfig, index: int, d_in: int, cells: Iterable[Cell], side: str) -> int:
    """The width of the result of `connect`; ConfigError if widths to be added differ."""
    width = sum(cell.d_out for cell in cells)
    if config.fast_forward:
        return width + sum(cell.d_gates for cell in cells)
    if 0 < config.residual_from <= index + 1 and d_in != width:
        raise ConfigError(
            f"arch.residual_from={config.residual_from}: {side} layer {index + 1} reads vectors of width {d_in} and "
            f"gives {width}, which cannot be added; give arch.residual_from={index + 2}"
        )
    return width


def d_memory(encoder: Encoder) -> int:
    """Width of the memory."""
    return sum(column.d_out for column in encoder.columns)


Item = TypeVar("Item", bound=nn.Module)


def modules(items: Iterable[Item]) -> list[Item]:
    """Modules in a Sequential, not a ModuleList, since train.strategy=fsdp gathers an element of a ModuleList only when
    it is called, and a decoder calls parts of its cells, many times."""
    return cast("list[Item]", nn.Sequential(*items))
