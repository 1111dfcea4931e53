"""An encoder, and a decoder's steps, as one call: with few and narrow rows, calling the layers takes longer than their
arithmetic.

An architecture describes what its layers consist of; a plugin that can compute such layers as one function implements
`fused_encoder` and `fused_decoder`, `fused_steps` for several steps of a beam search at once, and `stream_search` for
the whole search of sentences that come and go.

Shapes: B sentences, K hypotheses, N room for nodes, L room for tokens, S source length, h heads, V tokens, P positions,
D = d_model.
"""

from __future__ import annotations

__all__ = [
    "Columns",
    "FusedDecoder",
    "FusedEncoder",
    "FusedGuidance",
    "FusedModel",
    "FusedSource",
    "FusedState",
    "FusedWords",
    "HasFusedState",
    "HasStreamSearch",
    "LayerStack",
    "PositionTables",
    "RecurrentCell",
    "RecurrentLayers",
    "SearchStream",
    "StreamSearch",
    "Sublayers",
    "TreeCache",
    "fused_decoder",
    "fused_encoder",
    "stream_search",
]

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn

from s2s.backend.linear import LinearMap
from s2s.backend.operators.operator import Operator

if TYPE_CHECKING:
    from s2s.backend.growing_state import GrowingState
    from s2s.model import State
    from s2s.vocab import Guide

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Norm = nn.LayerNorm | nn.RMSNorm


class Sublayers(NamedTuple):
    """The linear maps and norms of a layer."""

    linears: Mapping[str, LinearMap]
    """`qkv`, queries, keys and values of self-attention together, and `out`, its output, or, in a decoder, `forget` and
    `new` of a simple recurrent unit; in a decoder `query` and `source_out` of cross-attention; `inner`, `outer` and, if
    inner activations are multiplied by another map of the input, `gate`"""
    norms: Sequence[Norm]
    """One for each sub-layer: self-attention or the unit, cross-attention in a decoder, feed-forward"""


class LayerStack(NamedTuple):
    """What all layers share, and what follows them."""

    heads: tuple[int, int, int]
    """h, d_k, d_v"""
    pre_norm: bool
    """Norms come before the sub-layers rather than after their residual sums"""
    activation: Activation
    """Between the maps `inner` and `outer`"""
    scale: float
    """Of the products of queries and keys"""
    relative: Tensor | None
    """[h, N], added to the scores of self-attention by distance: in a decoder of keys 0, 1, … tokens back, the last for
    all that are further; in an encoder of N odd distances from as many back to as many ahead"""
    norm: Norm | None
    """Of the last layer's output"""


class TreeCache(NamedTuple):
    """The keys and values of a search's tokens, or the states of recurrent units, and those of its sources; see
    `s2s.nn.kv_cache`."""

    nodes: Sequence[Tensor]
    """For each layer, [B, N, h * (d_k + d_v)], or of a recurrent unit [B, N, D]"""
    path: Tensor
    """[B, K, L], of which the first length [B] nodes count; in a `FusedState` as `pad_to_beam` pads them"""
    length: Tensor
    sources: Sequence[tuple[Tensor, Tensor]]
    """Each layer's keys and values, [B, h, S, d]"""
    seen: Tensor
    """[B, S], True at tokens"""


FusedDecoder = Callable[[Tensor, TreeCache], Tensor]
"""x [B, K, D] -> [B, K, D], all layers and the last norm; writes to the nodes where the paths end"""


@Operator
def fused_decoder(layers: Sequence[Sublayers], stack: LayerStack) -> FusedDecoder | None:
    """A decoding step of `layers` as one function; None: there is no such function."""


FusedEncoder = Callable[[Tensor, Tensor], Tensor]
"""x [B, S, D], pad [B, S], True at padding -> [B, S, D], all layers and the last norm"""


@Operator
def fused_encoder(layers: Sequence[Sublayers], stack: LayerStack) -> FusedEncoder | None:
    """`layers` as one function, without gradients."""


class RecurrentCell(NamedTuple):
    """An LSTM of width H. The gates, input, forget, cell and output, are input(x) + hidden(h)."""

    input: LinearMap
    """[..., I] -> [..., 4 H]"""
    hidden: LinearMap
    """[..., H] -> [..., 4 H], without a bias"""


RecurrentLayers = Sequence[Sequence[RecurrentCell]]
"""The cells of each layer: one, or in an encoder two, the first forwards, the second backwards; the next layer reads
their outputs side by side"""


class FusedGuidance(NamedTuple):
    """What `s2s.nn.Guidance` computes, for a guide with labels.

    P of its places are read, E = D + R: D for the decoder's input, R for its output.
    """

    guide: Guide
    maps: LinearMap
    """From the encoder's output to [..., P * E]"""
    nothing: Tensor
    """[P, E], in place of a word"""
    kinds: Tensor | None
    """[., E], of all values of all kinds; None: they are not read"""
    out: LinearMap
    """[..., R] -> [..., R], before the tanh"""


class FusedWords(NamedTuple):
    """Which tokens of a source make up its words, see `s2s.nn.SourceWords`."""

    begins: Tensor
    """[V], True at tokens that begin words"""
    pooled: bool
    """Whether words are what the encoder reads"""
    labels: range
    """Tokens that are then no part of words"""


@dataclass(frozen=True)
class FusedModel:
    """logits = output(output_scale * decoder(embedding_norm(scale * embedding[token] + guide + position)))"""

    decoder: FusedDecoder | RecurrentLayers
    embedding: Tensor | None
    """[V, D], fp32; None: the weight of `output`"""
    scale: float
    output: LinearMap
    output_scale: float = 1.0
    embedding_norm: Norm | None = None
    zero_start: bool = False
    """The first token's embedding is 0"""
    guidance: FusedGuidance | None = None
    """What is added to the embedding, and between decoder and output; only streams compute it, and recurrent layers"""


class Columns(NamedTuple):
    """The tokens that sentences list: all others have no probability."""

    ids: Tensor
    """[U], those of any sentence"""
    output: LinearMap
    """[..., D] -> [..., U], their logits"""
    listed: Tensor
    """[B, V], whether a sentence lists a token"""


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
    columns: Columns | None = None
    """With a shortlist: the logits that are computed"""


@runtime_checkable
class HasFusedState(Protocol):
    """A model that may have a fused decoder."""

    def fused_state(self, state: State, beam: int) -> tuple[FusedState, GrowingState] | None:
        """The same state for `fused_steps`, which give it `beam` hypotheses, and the state after them once
        `after_step` is applied: they write into its buffers. None: only `step` can compute this model's steps."""


class FusedSource(NamedTuple):
    """For each layer of a decoder, keys_values(encoder(scale * embedding[token] + position)), h keys, then h values."""

    encoder: FusedEncoder | RecurrentLayers
    n_tokens: int
    """V of the source"""
    embedding: Tensor | None
    """[V, D], fp32; None: the weight of `FusedModel.output`"""
    scale: float
    keys_values: Sequence[LinearMap]
    """[..., D] -> [..., h * (d_k + d_v)]; none without attention to the source"""
    words: FusedWords | None = None
    """For pooled words, a guide and labels; None: none of these"""
    labels: LinearMap | None = None
    """[..., D] -> [..., L], logits of the labels of words, see `Seq2Seq.label_logits`"""


class PositionTables(NamedTuple):
    """Functions from a number P to the encodings of the first positions, at least P: [P', D]; None: there are none."""

    src: Callable[[int], Tensor | None]
    tgt: Callable[[int], Tensor | None]
    """The starting token's is the first"""


class SearchStream(Protocol):
    """The search of sentences, from their tokens to their outputs, with the constraint and the shortlist of the run's
    request, and no constraint of their own. Sentences come and go, and may begin with several tokens each; a result, a
    `SearchResult` of `s2s.decoding`, has `nbest` outputs of its sentence. Those of beam search are bit-identical to the
    first of those of single steps; each sample (`Run.sampling`) is to that of single steps that draw it alone. With a
    guide, pooled words or recurrent layers, sums of single steps are rounded in another order."""

    @property
    def n_source(self) -> int:
        """Source tokens of the sentences that are not done."""

    def admit(self, run: Any, sentences: Sequence[Any], limits: Sequence[int]) -> Sequence[Any]:
        """Let some `SourceSentence`s join; those that cannot are returned, and must be started and searched by steps.

        run: what `begin` returned. limits: most tokens of their outputs, without eos.
        """

    def steps(self, max_steps: int) -> list[Any]:
        """The results of the sentences that are done after up to so many steps; fewer as
        `SentenceQueue.stop_threshold` says, or where tables must grow."""

    def cancel(self, indices: Collection[int]) -> None:
        """Remove the sentences with these indices, as far as they are not done."""


StreamSearch = Callable[[Any, Any], SearchStream | None]
"""A stream for a `StreamingSearch` and what its `begin` returned, both of `s2s.decoding`; None: there is none for it,
or for its constraint"""


@Operator
def stream_search(source: FusedSource, target: FusedModel, positions: PositionTables) -> StreamSearch | None:
    """The search of a model's sentences, whose structures are made once; None: there is no such function."""


@runtime_checkable
class HasStreamSearch(Protocol):
    """A model that may have a function for the whole search of its sentences."""

    def stream_search(self) -> StreamSearch | None:
        """None: `encode`, `start` and `step` must be called."""
