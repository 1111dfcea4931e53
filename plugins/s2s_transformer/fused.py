"""The decoder's steps as functions in C, where they support the configuration and its weights are prepacked."""

from __future__ import annotations

__all__ = ["fused_decoder", "fused_state"]

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from s2s.backend import (
    DecoderSublayers,
    FusedDecoder,
    FusedModel,
    FusedState,
    PrepackedLinear,
    TreeCache,
    linear_function,
)
from s2s_transformer.layers import DecoderLayer, FeedForward, departures, heads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s.nn import Embeddings
    from s2s_transformer import TransformerConfig
    from s2s_transformer.decoding import Decoding


def fused_decoder(
    layers: Iterable[DecoderLayer], last_norm: nn.Module, config: TransformerConfig
) -> FusedDecoder | None:
    """Their step as one function in C, with the norm of the stack; None if it does not support the configuration or
    their weights are not prepacked for it."""
    sublayers = [_sublayers(layer) for layer in layers]
    if config.activation != "relu" or departures(config) or None in sublayers:
        return None
    own, last = heads(config), last_norm if isinstance(last_norm, nn.LayerNorm) else None
    sizes, pre_norm = (own.n, own.d_k, own.d_v), config.norm == "pre"
    return FusedDecoder([s for s in sublayers if s], sizes, pre_norm=pre_norm, norm=last)


def fused_state(decoder: FusedDecoder, embeddings: Embeddings, state: Decoding) -> tuple[FusedState, Decoding] | None:
    """The state for functions in C, and as it is after their steps but for the counts on the host, from one that has
    room for a step; None if the product with the softmax's matrix is not in C."""
    output = embeddings.prepacked
    if not isinstance(output, PrepackedLinear):
        return None
    state = replace(state, length=state.length.clone(), n_nodes=state.n_nodes.clone())
    has_positions, n_steps = len(state.positions) > 0, state.n_free_steps
    if has_positions:
        n_steps = min(n_steps, len(state.positions) - state.max_length)
    sources, seen, _ = state.sentence
    cache = TreeCache(state.nodes, state.hypothesis, state.length, sources, seen)
    model = FusedModel(decoder, embeddings.target_table.detach(), embeddings.scale, output)
    return FusedState(model, cache, state.n_nodes, state.positions if has_positions else None, n_steps), state


def _sublayers(layer: DecoderLayer) -> DecoderSublayers | None:
    own, source, feed_forward = layer.attention, layer.cross_attention, layer.feed_forward
    if source is None or not isinstance(feed_forward, FeedForward):  # a plugin may have put another module there
        return None
    modules = (own.qkv, own.out, source.q, source.out, feed_forward.inner, feed_forward.out)
    residuals = (layer.attention_residual, layer.cross_attention_residual, layer.feed_forward_residual)
    norms = [residual.norm for residual in residuals if isinstance(residual.norm, nn.LayerNorm)]
    linears = [linear for linear in map(linear_function, modules) if isinstance(linear, PrepackedLinear)]
    supported = len(linears) == len(modules) and len(norms) == len(residuals)
    return DecoderSublayers(linears, norms) if supported else None
