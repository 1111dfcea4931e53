"""Intermediate representation of an encoder-decoder model with attention, from which exporters write.

An architecture registers its own under its name in the registry's group `intermediate`.
Shapes: D = d_model, h heads, V vocabulary size, O and I output and input width of a linear map.
"""

from __future__ import annotations

__all__ = ["Attention", "IntermediateModel", "Layer", "LayerNorm", "Linear", "Stack"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


class Linear(NamedTuple):
    """x W^T + b"""

    weight: Tensor
    """[O, I]"""
    bias: Tensor | None = None
    """[O]"""


class LayerNorm(NamedTuple):
    """Layer normalisation."""

    weight: Tensor
    """[D]"""
    bias: Tensor
    """[D]"""
    eps: float


class Attention(NamedTuple):
    """The four projections of multi-head attention, heads concatenated; scores are scaled by 1 / sqrt(d_k)."""

    q: Linear
    """[h * d_k, D], the same for k"""
    k: Linear
    v: Linear
    """[h * d_v, D]"""
    out: Linear
    """[D, h * d_v]"""


@dataclass(frozen=True)
class Layer:
    """A layer of the encoder, or, with cross-attention, of the decoder."""

    attention: Attention
    attention_norm: LayerNorm
    inner: Linear
    """[d_ff, D]"""
    out: Linear
    """[D, d_ff]"""
    feed_forward_norm: LayerNorm
    cross: Attention | None = None
    cross_norm: LayerNorm | None = None


@dataclass(frozen=True)
class Stack:
    """The encoder or the decoder."""

    embeddings: Tensor
    """[V, D], unscaled"""
    positions: Callable[[int], Tensor]
    """n -> position encodings added to the scaled embeddings of the first n tokens, [n, D]"""
    layers: Sequence[Layer]
    norm: LayerNorm | None
    """After the last layer of a pre-norm model"""


@dataclass(frozen=True)
class IntermediateModel:
    """A model in evaluation mode, without dropout."""

    encoder: Stack
    decoder: Stack
    softmax: Linear
    """[V, D]"""
    n_heads: int
    pre_norm: bool
    """x + Sublayer(norm(x)) instead of norm(x + Sublayer(x))"""
    activation: str
    """relu, or gelu with the error function"""
    scale: float
    """Factor of the embeddings"""
    max_positions: int | None
    """None: no limit"""

    @property
    def d_model(self) -> int:
        """D"""
        return self.encoder.embeddings.size(1)

    @property
    def eps(self) -> float:
        """Epsilon of every layer normalisation."""
        return self.encoder.layers[0].attention_norm.eps
