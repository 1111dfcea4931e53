"""The encoder and the decoder's steps as single calls, where a plugin provides them."""

from __future__ import annotations

__all__ = [
    "first_positions",
    "fused_decoder",
    "fused_encoder",
    "fused_model",
    "fused_source",
    "fused_state",
    "must_call_layers",
]

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from s2s.backend import fused, linear, pad_to_beam
from s2s.nn import SelfAttention, must_be_called
from s2s_transformer.layers import DecoderLayer, EncoderLayer, FeedForward, ResidualConnection, heads
from s2s_transformer.ssru import SSRU

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.nn import Embeddings
    from s2s_transformer import TransformerConfig
    from s2s_transformer.decoding import TransformerState
    from s2s_transformer.positions import Positions
    from s2s_transformer.relative_bias import RelativeBias


def fused_decoder(
    layers: Iterable[DecoderLayer], last_norm: nn.Module, config: TransformerConfig, relative: RelativeBias | None
) -> fused.FusedDecoder | None:
    """A step of these layers as one function, with the norm of the stack; None if there is none for the configuration
    or for the present form of their weights."""
    sublayers = [_decoder_sublayers(layer) for layer in layers] if _is_fusible(config) else [None]
    if None in sublayers:
        return None
    return fused.fused_decoder([s for s in sublayers if s], _stack(last_norm, config, relative))


def fused_encoder(
    layers: Iterable[EncoderLayer], last_norm: nn.Module, config: TransformerConfig, relative: RelativeBias | None
) -> fused.FusedEncoder | None:
    """The same for the encoder's layers."""
    sublayers = [_encoder_sublayers(layer) for layer in layers] if _is_fusible(config) else [None]
    if None in sublayers:
        return None
    return fused.fused_encoder([s for s in sublayers if s], _stack(last_norm, config, relative))


def must_call_layers(layers: Iterable[nn.Module]) -> bool:
    """Whether a layer, its attention or its feed-forward network does more than its class says, such as by hooks."""
    return any(must_be_called(module) for layer in layers for module in (layer, *layer.children()))


def _is_fusible(config: TransformerConfig) -> bool:
    """Whether scores are products of queries and keys with heads of their own, by position or distance at most biased,
    of all positions."""
    products = config.attention_score != "additive" and config.positions not in ("rotary", "relative")
    return products and config.self_attention == "full" and heads(config).n_kv_heads == config.n_heads


@torch.no_grad()
def _stack(last_norm: nn.Module, config: TransformerConfig, relative: RelativeBias | None) -> fused.LayerStack:
    of, table = heads(config), None
    if relative is not None:
        furthest = relative.furthest  # from which on all distances have the same number
        distance = -torch.arange(furthest + 1) if relative.causal else torch.arange(-furthest, furthest + 1)
        table = relative(distance[None])[:, 0].contiguous()  # [h, N]
    return fused.LayerStack(
        heads=(of.n, of.d_k, of.d_v),
        pre_norm=config.norm == "pre",
        activation=config.activation,
        scale=1.0 if config.attention_score == "dot" else of.d_k**-0.5,
        relative=table,
        norm=_norm(last_norm),
    )


def fused_model(
    decoder: fused.FusedDecoder,
    embeddings: Embeddings,
    norm: nn.Module,
    config: TransformerConfig,
    guidance: fused.FusedGuidance | None = None,
) -> fused.FusedModel | None:
    """The model from tokens to logits, with the norm of the decoder's input; None if the softmax's matrix is not
    prepacked."""
    if embeddings.prepacked is None:
        return None
    table, output_scale = embeddings.target_table, config.d_model**-0.5 if config.scale_output else 1.0
    table = None if table is None else table.detach()
    maps = (table, embeddings.scale, embeddings.prepacked)
    return fused.FusedModel(decoder, *maps, output_scale, _norm(norm), config.zero_start, guidance)


def fused_source(
    encoder: fused.FusedEncoder, n_tokens: int, embeddings: Embeddings, layers: Iterable[DecoderLayer]
) -> fused.FusedSource:
    """The model from source tokens to the keys and values of a decoder's layers, all with cross-attention."""
    maps = [linear.linear_function(layer.cross_attention.kv) for layer in layers if layer.cross_attention]
    table = embeddings.source_table
    table = None if table is None else table.detach()
    return fused.FusedSource(encoder, n_tokens, table, embeddings.scale, maps)


def first_positions(positions: Positions | None, n: int) -> torch.Tensor | None:
    """[P, D], encodings of the first n positions, on a CPU; None: the model adds none."""
    if positions is None:
        return None
    positions.check(n)
    return positions.first(n, torch.float32, torch.device("cpu"))


def fused_state(
    model: fused.FusedModel, state: TransformerState, beam: int
) -> tuple[fused.FusedState, TransformerState]:
    """See `HasFusedState`, for a state that has room for a step."""
    paths = pad_to_beam(state.hypothesis, beam)
    state = replace(state, hypothesis=paths, length=state.length.clone(), n_nodes=state.n_nodes.clone())
    has_positions, n_steps = len(state.positions) > 0, state.n_free_steps
    if has_positions:
        n_steps = min(n_steps, len(state.positions) - state.max_length)
    sources, seen, *_ = state.sentence
    cache = fused.TreeCache(state.nodes, state.hypothesis, state.length, sources, seen)
    positions = state.positions if has_positions else None
    return fused.FusedState(model, cache, state.n_nodes, positions, n_steps, state.columns), state


def _decoder_sublayers(layer: DecoderLayer) -> fused.Sublayers | None:
    first, source = layer.attention, layer.cross_attention
    if source is None:
        return None
    modules: dict[str, nn.Module] = {"query": source.q, "source_out": source.out}
    if isinstance(first, SSRU):
        modules |= {"forget": first.forget, "new": first.inner}
    elif isinstance(first, SelfAttention):  # a plugin may have put another module there
        modules |= {"qkv": first.qkv, "out": first.out}
    else:
        return None
    residuals = (layer.attention_residual, layer.cross_attention_residual, layer.feed_forward_residual)
    return _sublayers(modules, layer.feed_forward, residuals)


def _encoder_sublayers(layer: EncoderLayer) -> fused.Sublayers | None:
    modules: dict[str, nn.Module] = {"qkv": layer.attention.qkv, "out": layer.attention.out}
    return _sublayers(modules, layer.feed_forward, (layer.attention_residual, layer.feed_forward_residual))


def _sublayers(
    modules: dict[str, nn.Module], feed_forward: nn.Module, residuals: Sequence[ResidualConnection]
) -> fused.Sublayers | None:
    """With those of the feed-forward network, unless a plugin has put another module in its place."""
    if not isinstance(feed_forward, FeedForward):
        return None
    modules |= {"inner": feed_forward.inner, "outer": feed_forward.out}
    if feed_forward.gate is not None:
        modules["gate"] = feed_forward.gate
    norms = [norm for residual in residuals if (norm := _norm(residual.norm))]
    linears = {name: linear.linear_function(module) for name, module in modules.items()}
    return fused.Sublayers(linears, norms) if len(norms) == len(residuals) else None


def _norm(module: nn.Module) -> nn.LayerNorm | nn.RMSNorm | None:
    """None: it is something else, such as nn.Identity"""
    return module if isinstance(module, nn.LayerNorm | nn.RMSNorm) else None
