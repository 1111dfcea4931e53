"""The parts of a ConvS2S decoder: its layers, what they attend to, and the decoding state of a hypothesis.

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
"""A sum of two terms times this has the variance of each term (section 3.4)"""


@dataclass
class ConvMemory(Memory):
    """`hidden` is z, the keys of attention."""

    values: Tensor
    """[B, S, D]: the sum of z and the source's embeddings, scaled by HALF, from which contexts are computed"""


class Source(NamedTuple):
    """The source, to which every decoder layer attends."""

    keys: Tensor
    """[B, S, D]"""
    values: Tensor
    """[B, S, D]"""
    seen: Tensor
    """[B, S], True at tokens"""


class Window(NamedTuple):
    """The decoding state of a hypothesis."""

    position: Tensor
    """[B, K]"""
    inputs: tuple[Tensor, ...]
    """The last inputs of each layer's convolution, [B, K, k - 1, W]"""


@dataclass
class ConvState(State):
    """`sentence` is a `Source`, `hypothesis` a `Window`."""

    supports_join: ClassVar[bool] = True
    supports_capture: ClassVar[bool] = True


class ConvLayer(nn.Module):
    """A convolution to twice the width, one half of which gates the other (section 3.2), and a residual sum."""

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
        """The gated convolution without the residual sum."""
        return F.glu(self.convolution(widen(self.dropout(x))), dim=-1)


class DecoderLayer(nn.Module):
    """A `ConvLayer` with attention between convolution and residual sum (section 3.3)."""

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
    """The source as the decoder attends to it."""
    assert isinstance(memory, ConvMemory)
    return Source(memory.hidden, memory.values, ~memory.pad)
