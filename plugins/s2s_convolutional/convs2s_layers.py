"""What a ConvS2S decoder is made of: its layers, what they attend to, and where a hypothesis stands.

Shapes and sections as in `convs2s`.
"""

from __future__ import annotations

__all__ = ["HALF", "ConvLayer", "ConvMemory", "ConvState", "DecoderLayer", "Source", "Window", "source"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s import Memory, State
from s2s.nn import Dropout
from s2s_convolutional.weight_norm import NormedLinear

if TYPE_CHECKING:
    from collections.abc import Callable

HALF = math.sqrt(0.5)
"""A sum of two times this varies as each of them (section 3.4)"""


@dataclass
class ConvMemory(Memory):
    """`hidden` is what queries are compared with, z."""

    values: Tensor
    """[B, S, D]: z and the source's embeddings, of which contexts are made"""


class Source(NamedTuple):
    """What every decoder layer attends to."""

    keys: Tensor
    """[B, S, D]"""
    values: Tensor
    """[B, S, D]"""
    seen: Tensor
    """[B, S], True at tokens"""


class Window(NamedTuple):
    """Where a hypothesis stands."""

    position: Tensor
    """[B, K]"""
    inputs: tuple[Tensor, ...]
    """The last inputs of each layer's convolution, [B, K, k - 1, W]"""


@dataclass
class ConvState(State):
    """The sentence's half is a `Source`, the hypothesis's a `Window`."""

    joins: ClassVar[bool] = True
    captures: ClassVar[bool] = True


class ConvLayer(nn.Module):
    """A convolution to twice the width, half of which gates the other half (section 3.2), and a residual sum."""

    def __init__(self, d_in: int, d_out: int, kernel: int, keep: float) -> None:
        super().__init__()
        self.d_in, self.d_out, self.kernel = d_in, d_out, kernel
        self.convolution = NormedLinear(kernel * d_in, 2 * d_out, keep=keep, gated=True)
        self.shortcut = NormedLinear(d_in, d_out) if d_in != d_out else nn.Identity()
        self.dropout = Dropout(1 - keep)

    def forward(self, x: Tensor, widen: Callable[[Tensor], Tensor]) -> Tensor:
        """[B, ·, W] -> [B, ·, W']"""
        return (self.gated(x, widen) + self.shortcut(x)) * HALF

    def gated(self, x: Tensor, widen: Callable[[Tensor], Tensor]) -> Tensor:
        """The same without the sum."""
        return F.glu(self.convolution(widen(self.dropout(x))), dim=-1)


class DecoderLayer(nn.Module):
    """The same with an attention between convolution and sum (section 3.3)."""

    def __init__(self, d_in: int, d_out: int, kernel: int, d_model: int, keep: float) -> None:
        super().__init__()
        self.d_in, self.d_out, self.kernel = d_in, d_out, kernel
        self.gate = ConvLayer(d_in, d_out, kernel, keep)
        self.query = NormedLinear(d_out, d_model)
        self.context = NormedLinear(d_model, d_out)

    def forward(
        self, x: Tensor, embedded: Tensor, source: Source, widen: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """x [B, ·, W], embedded [B, ·, D] -> [B, ·, W'] and weights [B, ·, S]"""
        h = self.gate.gated(x, widen)
        query = (self.query(h) + embedded) * HALF
        scores = query @ source.keys.to(query.dtype).mT
        weights = scores.masked_fill(~source.seen[:, None], torch.finfo(scores.dtype).min).softmax(-1)
        root = source.seen.sum(1).clamp(min=1).to(source.values.dtype).sqrt()  # a mean of n vectors varies less
        context = (weights.to(source.values.dtype) @ source.values) * root[:, None, None]
        h = (h + self.context(context)) * HALF
        return (h + self.gate.shortcut(x)) * HALF, weights


def source(memory: Memory) -> Source:
    """What the decoder attends to."""
    assert isinstance(memory, ConvMemory)
    return Source(memory.hidden, memory.values, ~memory.pad)
