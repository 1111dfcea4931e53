"""The encoder and the decoder's steps as single calls, where a plugin provides them."""

from __future__ import annotations

__all__ = ["fused_decoder", "fused_encoder", "fused_state", "has_hooks"]

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from s2s.backend import fused, linear, pad_to_beam
from s2s.nn import SelfAttention
from s2s_transformer.layers import DecoderLayer, EncoderLayer, FeedForward, ResidualConnection, departures, heads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s.nn import Embeddings
    from s2s_transformer import TransformerConfig
    from s2s_transformer.decoding import TransformerState


def fused_decoder(
    layers: Iterable[DecoderLayer], last_norm: nn.Module, config: TransformerConfig
) -> fused.FusedDecoder | None:
    """A step of these layers as one function, with the norm of the stack; None if there is none for the configuration
    or for the present form of their weights."""
    sublayers = [_decoder_sublayers(layer) for layer in layers] if _is_fusible(config) else [None]
    if None in sublayers:
        return None
    return fused.fused_decoder([s for s in sublayers if s], *_options(last_norm, config))


def fused_encoder(
    layers: Iterable[EncoderLayer], last_norm: nn.Module, config: TransformerConfig
) -> fused.FusedEncoder | None:
    """The same for the encoder's layers."""
    sublayers = [_encoder_sublayers(layer) for layer in layers] if _is_fusible(config) else [None]
    if None in sublayers:
        return None
    return fused.fused_encoder([s for s in sublayers if s], *_options(last_norm, config))


def has_hooks(layers: Iterable[EncoderLayer]) -> bool:
    """Whether a layer, its attention or its feed-forward network has hooks, so that it must be called."""
    modules = (module for layer in layers for module in (layer, layer.attention, layer.feed_forward))
    return any(module._forward_pre_hooks or module._forward_hooks for module in modules)


def _is_fusible(config: TransformerConfig) -> bool:
    return config.activation == "relu" and not departures(config)


def _options(last_norm: nn.Module, config: TransformerConfig) -> tuple[tuple[int, int, int], bool, nn.LayerNorm | None]:
    """h, d_k, d_v; whether norms come before sub-layers; the norm of the stack, if it has one"""
    n_heads, last = heads(config), last_norm if isinstance(last_norm, nn.LayerNorm) else None
    return (n_heads.n, n_heads.d_k, n_heads.d_v), config.norm == "pre", last


def fused_state(
    decoder: fused.FusedDecoder, embeddings: Embeddings, state: TransformerState, beam: int
) -> tuple[fused.FusedState, TransformerState] | None:
    """See `HasFusedState`, for a state that has room for a step; None if the softmax's matrix is not prepacked."""
    if embeddings.prepacked is None:
        return None
    paths = pad_to_beam(state.hypothesis, beam)
    state = replace(state, hypothesis=paths, length=state.length.clone(), n_nodes=state.n_nodes.clone())
    has_positions, n_steps = len(state.positions) > 0, state.n_free_steps
    if has_positions:
        n_steps = min(n_steps, len(state.positions) - state.max_length)
    sources, seen, _ = state.sentence
    cache = fused.TreeCache(state.nodes, state.hypothesis, state.length, sources, seen)
    table = embeddings.target_table
    model = fused.FusedModel(decoder, None if table is None else table.detach(), embeddings.scale, embeddings.prepacked)
    return fused.FusedState(model, cache, state.n_nodes, state.positions if has_positions else None, n_steps), state


def _decoder_sublayers(layer: DecoderLayer) -> fused.DecoderSublayers | None:
    self_attention, source, feed_forward = layer.attention, layer.cross_attention, layer.feed_forward
    if source is None or not isinstance(self_attention, SelfAttention):
        return None
    if not isinstance(feed_forward, FeedForward):  # a plugin may have put another module there
        return None
    modules = (self_attention.qkv, self_attention.out, source.q, source.out, feed_forward.inner, feed_forward.out)
    residuals = (layer.attention_residual, layer.cross_attention_residual, layer.feed_forward_residual)
    norms = _norms(*residuals)
    return (
        fused.DecoderSublayers([*map(linear.linear_function, modules)], norms) if len(norms) == len(residuals) else None
    )


def _encoder_sublayers(layer: EncoderLayer) -> fused.EncoderSublayers | None:
    attention, feed_forward = layer.attention, layer.feed_forward
    if not isinstance(feed_forward, FeedForward):
        return None
    modules = (attention.qkv, attention.out, feed_forward.inner, feed_forward.out)
    norms = _norms(layer.attention_residual, layer.feed_forward_residual)
    return fused.EncoderSublayers([*map(linear.linear_function, modules)], norms) if len(norms) == 2 else None


def _norms(*residuals: ResidualConnection) -> list[nn.LayerNorm]:
    """Those of their norms that are layer normalisations"""
    return [residual.norm for residual in residuals if isinstance(residual.norm, nn.LayerNorm)]
