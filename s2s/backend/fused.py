"""An encoder, and a decoder's steps, as one call: with few and narrow rows, calling the layers takes longer than their
arithmetic.

An architecture describes what its layers consist of; a plugin that can compute such layers as one function implements
`fused_encoder` and `fused_decoder`, and `fused_steps` for several steps of a beam search at once.

Shapes: B sentences, K hypotheses, N room for nodes, L room for tokens, S source length, h heads, V tokens, P positions,
D = d_model.
"""

from __future__ import annotations

__all__ = [
    "DecoderSublayers",
    "EncoderSublayers",
    "FusedDecoder",
    "FusedEncoder",
    "FusedModel",
    "FusedState",
    "HasFusedState",
    "TreeCache",
    "fused_decoder",
    "fused_encoder",
]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn

from s2s.backend.linear import LinearMap
from s2s.backend.operators.operator import Operator

if TYPE_CHECKING:
    from s2s.backend.growing_state import GrowingState
    from s2s.model import State


class DecoderSublayers(NamedTuple):
    """A layer: self-attention over the paths so far, cross-attention, and max(0, x W1 + b1) W2 + b2."""

    linears: Sequence[LinearMap]
    """Self-attention: queries, keys and values together, then the output; cross-attention: queries, then the output;
    W1 and W2"""
    norms: Sequence[nn.LayerNorm]
    """One for each of the three sub-layers"""


class EncoderSublayers(NamedTuple):
    """A layer: self-attention, and max(0, x W1 + b1) W2 + b2."""

    linears: Sequence[LinearMap]
    """Self-attention: queries, keys and values together, then the output; W1 and W2"""
    norms: Sequence[nn.LayerNorm]
    """One for each of the two sub-layers"""


class TreeCache(NamedTuple):
    """The keys and values of a search's tokens, and of its sources; see `s2s.nn.kv_cache`."""

    nodes: Sequence[Tensor]
    """For each layer, [B, N, h * (d_k + d_v)]"""
    path: Tensor
    """[B, K, L], of which the first length [B] nodes count; in a `FusedState` as `pad_to_beam` pads them"""
    length: Tensor
    sources: Sequence[tuple[Tensor, Tensor]]
    """Each layer's keys and values, [B, h, S, d]"""
    seen: Tensor
    """[B, S], True at tokens"""


FusedDecoder = Callable[[Tensor, TreeCache], Tensor]
"""x [B, K, D] -> [B, K, D], all layers and the last norm; writes keys and values to the nodes where the paths end"""


@Operator
def fused_decoder(
    layers: Sequence[DecoderSublayers], heads: tuple[int, int, int], pre_norm: bool, norm: nn.LayerNorm | None
) -> FusedDecoder | None:
    """A decoding step of `layers`, then `norm` if given, as one function; None: there is no such function.

    heads: h, d_k, d_v; pre_norm: whether norms come before the sub-layers rather than after their residual sums.
    """


FusedEncoder = Callable[[Tensor, Tensor], Tensor]
"""x [B, S, D], pad [B, S], True at padding -> [B, S, D], all layers and the last norm"""


@Operator
def fused_encoder(
    layers: Sequence[EncoderSublayers], heads: tuple[int, int, int], pre_norm: bool, norm: nn.LayerNorm | None
) -> FusedEncoder | None:
    """`layers` as one function, without gradients; arguments as of `fused_decoder`."""


@dataclass(frozen=True)
class FusedModel:
    """logits = output(decoder(scale * embedding[token] + position))"""

    decoder: FusedDecoder
    embedding: Tensor | None
    """[V, D], fp32; None: the weight of `output`"""
    scale: float
    output: LinearMap


class FusedState(NamedTuple):
    """The state of a model's decoding."""

    model: FusedModel
    cache: TreeCache
    n_nodes: Tensor
    """[B], nodes in use"""
    positions: Tensor | None
    """[P, D], encodings of the first positions, if the model adds them"""
    n_steps: int
    """Steps for which all buffers have room"""


@runtime_checkable
class HasFusedState(Protocol):
    """A model that may have a fused decoder."""

    def fused_state(self, state: State, beam: int) -> tuple[FusedState, GrowingState] | None:
        """The same state for `fused_steps`, which give it `beam` hypotheses, and the state after them once
        `after_step` is applied: they write into its buffers. None: only `step` can compute this model's steps."""
