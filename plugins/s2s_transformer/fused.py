"""The decoder's steps as one call, where a plugin can compute them so."""

from __future__ import annotations

__all__ = ["fused_decoder", "fused_state"]

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

import s2s.backend as backend
from s2s.backend import DecoderSublayers, FusedModel, FusedState, TreeCache, linear_function
from s2s_transformer.layers import DecoderLayer, FeedForward, departures, heads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from s2s.backend import FusedDecoder
    from s2s.nn import Embeddings
    from s2s_transformer import TransformerConfig
    from s2s_transformer.decoding import Decoding


def fused_decoder(
    layers: Iterable[DecoderLayer], last_norm: nn.Module, config: TransformerConfig
) -> FusedDecoder | None:
    """Their step as one function, with the norm of the stack; None if there is none for the configuration or for their
    weights as they are."""
    sublayers = [_sublayers(layer) for layer in layers]
    if config.activation != "relu" or departures(config) or None in sublayers:
        return None
    own, last = heads(config), last_norm if isinstance(last_norm, nn.LayerNorm) else None
    sizes = own.n, own.d_k, own.d_v
    return backend.fused_decoder([s for s in sublayers if s], sizes, config.norm == "pre", last)


def fused_state(
    decoder: FusedDecoder, embeddings: Embeddings, state: Decoding, beam: int
) -> tuple[FusedState, Decoding] | None:
    """See `HasFusedState`, for a state that has room for a step; None if the product with the softmax's matrix is not
    prepacked."""
    if embeddings.prepacked is None:
        return None
    paths = _with_room(state.hypothesis, beam)
    state = replace(state, hypothesis=paths, length=state.length.clone(), n_nodes=state.n_nodes.clone())
    has_positions, n_steps = len(state.positions) > 0, state.n_free_steps
    if has_positions:
        n_steps = min(n_steps, len(state.positions) - state.max_length)
    sources, seen, _ = state.sentence
    cache = TreeCache(state.nodes, state.hypothesis, state.length, sources, seen)
    model = FusedModel(decoder, embeddings.target_table.detach(), embeddings.scale, embeddings.prepacked)
    return FusedState(model, cache, state.n_nodes, state.positions if has_positions else None, n_steps), state


def _with_room(paths: Tensor, beam: int) -> Tensor:
    """paths [B, K, L] as the first numbers of [B, beam, L]"""
    n_sentences, n_hypotheses, room = paths.shape
    if n_hypotheses == beam:
        return paths
    wide = paths.new_zeros(n_sentences, beam, room)
    wide.view(-1)[: paths.numel()] = paths.flatten()
    return wide


def _sublayers(layer: DecoderLayer) -> DecoderSublayers | None:
    own, source, feed_forward = layer.attention, layer.cross_attention, layer.feed_forward
    if source is None or not isinstance(feed_forward, FeedForward):  # a plugin may have put another module there
        return None
    modules = (own.qkv, own.out, source.q, source.out, feed_forward.inner, feed_forward.out)
    residuals = (layer.attention_residual, layer.cross_attention_residual, layer.feed_forward_residual)
    norms = [residual.norm for residual in residuals if isinstance(residual.norm, nn.LayerNorm)]
    return DecoderSublayers([*map(linear_function, modules)], norms) if len(norms) == len(residuals) else None
