"""What the weights of an encoder and a decoder with attention mean, whatever architecture they come from.

Shapes: D = d_model, h heads, V symbols, O and I the widths of what goes out of a product and into it.
"""

from __future__ import annotations

__all__ = ["Attention", "Layer", "Linear", "Norm", "Stack", "Weights", "exported_in_full"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from s2s.errors import ConfigError


class Linear(NamedTuple):
    """x W^T + b"""

    weight: Tensor
    """[O, I]"""
    bias: Tensor | None = None
    """[O]"""


class Norm(NamedTuple):
    """Layer normalisation."""

    weight: Tensor
    """[D]"""
    bias: Tensor
    """[D]"""
    eps: float


class Attention(NamedTuple):
    """The four maps of multi-head attention, heads side by side; scores are divided by the root of a key's width."""

    q: Linear
    """[h * d_k, D], as k"""
    k: Linear
    v: Linear
    """[h * d_v, D]"""
    out: Linear
    """[D, h * d_v]"""


@dataclass(frozen=True)
class Layer:
    """A layer of the encoder, or, with attention over the source, of the decoder."""

    attention: Attention
    attention_norm: Norm
    inner: Linear
    """[d_ff, D]"""
    out: Linear
    """[D, d_ff]"""
    feed_forward_norm: Norm
    cross: Attention | None = None
    cross_norm: Norm | None = None


@dataclass(frozen=True)
class Stack:
    """The encoder, or the decoder."""

    table: Tensor
    """Embeddings, [V, D], as yet unscaled"""
    positions: Callable[[int], Tensor]
    """n -> what is added to the scaled embeddings of the first n symbols, [n, D]"""
    layers: Sequence[Layer]
    norm: Norm | None
    """After the last layer, in pre-norm models"""


@dataclass(frozen=True)
class Weights:
    """A model in evaluation mode: dropout leaves no trace in it."""

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
    """What embeddings are multiplied by"""
    longest: int | None
    """Positions that there are; None: any number"""

    @property
    def d_model(self) -> int:
        """D"""
        return self.encoder.table.size(1)

    @property
    def eps(self) -> float:
        """What all norms add to the variance."""
        return self.encoder.layers[0].attention_norm.eps


def exported_in_full(weights: Weights, form: str) -> None:
    """ConfigError for what no format that derives the heads' widths from the model's can express."""
    for layer in (*weights.encoder.layers, *weights.decoder.layers):
        for attention in filter(None, (layer.attention, layer.cross)):
            widths = attention.q.weight.size(0), attention.v.weight.size(0)
            if widths != (weights.d_model, weights.d_model) or weights.d_model % weights.n_heads:
                raise ConfigError(
                    f"format={form} knows heads of width d_model / n_heads alone, but {weights.n_heads} heads have "
                    f"keys and values of {widths[0]} and {widths[1]} numbers with d_model={weights.d_model}"
                )
    if abs(weights.scale - weights.d_model**0.5) > 1e-6 * weights.scale:
        raise ConfigError(f"format={form} multiplies embeddings by sqrt(d_model), but this model by {weights.scale:g}")
