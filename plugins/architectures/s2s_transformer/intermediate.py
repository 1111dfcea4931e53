"""The Transformer in the intermediate representation, for exporters."""

from __future__ import annotations

__all__ = ["intermediate"]

from typing import TYPE_CHECKING

import torch
from torch import nn

from s2s import ConfigError
from s2s.intermediate import Attention, IntermediateModel, Layer, LayerNorm, Linear, Stack
from s2s.nn import TABLES
from s2s_transformer.layers import DecoderLayer, departures

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.nn import CrossAttention, Projections, SelfAttention
    from s2s_transformer import TransformerConfig
    from s2s_transformer.layers import EncoderLayer
    from s2s_transformer.model import Transformer
    from s2s_transformer.positions import Positions


def intermediate(config: TransformerConfig, model: Transformer) -> IntermediateModel:
    """The model's own tensors, not copied; the model must not be prepacked."""
    if config.guide != "none" or config.words == "pooled":
        raise ConfigError(
            f"arch.guide={config.guide}, arch.words={config.words}: exports are of arch.guide=none and tokens"
        )
    if unknown := departures(config):
        raise ConfigError(f"exported formats have none of {', '.join(unknown)}")
    embeddings = model.embeddings
    source, target, _ = (embeddings.get_parameter(name) for name in TABLES[config.share_embeddings])
    encoder = Stack(
        source,
        lambda n: _positions(model.src_positions, n, config.d_model),
        [_layer(layer) for layer in model.encoder],
        _last(model.encoder_norm, config),
    )
    decoder = Stack(
        target,
        lambda n: _positions(model.tgt_positions, n, config.d_model),
        [_layer(layer) for layer in model.decoder],
        _last(model.decoder_norm, config),
    )
    return IntermediateModel(
        encoder,
        decoder,
        Linear(*embeddings.weight_and_bias()),
        n_heads=config.n_heads,
        pre_norm=config.norm == "pre",
        activation=config.activation,
        scale=embeddings.scale,
        max_positions=model.max_len,
    )


def _layer(layer: EncoderLayer | DecoderLayer) -> Layer:
    decodes = layer if isinstance(layer, DecoderLayer) else None
    cross = decodes.cross_attention if decodes else None
    return Layer(
        attention=_attention(layer.attention),
        attention_norm=_norm(layer.attention_residual.norm),
        inner=_linear(layer.feed_forward.inner),
        out=_linear(layer.feed_forward.out),
        feed_forward_norm=_norm(layer.feed_forward_residual.norm),
        cross=_cross_attention(cross) if cross else None,
        cross_norm=_norm(decodes.cross_attention_residual.norm) if decodes and cross else None,
    )


def _attention(attention: SelfAttention) -> Attention:
    q, k, v = _parts(attention.qkv)
    return Attention(q, k, v, _linear(attention.out))


def _cross_attention(attention: CrossAttention) -> Attention:
    k, v = _parts(attention.kv)
    return Attention(_linear(attention.q), k, v, _linear(attention.out))


def _parts(maps: Projections) -> list[Linear]:
    return [Linear(*pair) for pair in zip(maps.weight.split(maps.parts), maps.bias.split(maps.parts), strict=True)]


def _linear(linear: nn.Linear) -> Linear:
    return Linear(linear.weight, linear.bias)


def _norm(norm: nn.Module) -> LayerNorm:
    assert isinstance(norm, nn.LayerNorm)
    return LayerNorm(norm.weight, norm.bias, norm.eps)


def _last(norm: nn.Module, config: TransformerConfig) -> LayerNorm | None:
    return _norm(norm) if config.norm == "pre" else None  # an Identity otherwise


def _positions(positions: Positions | None, n: int, d_model: int) -> Tensor:
    """[n, D]; zeros where there are none."""
    return torch.zeros(n, d_model) if positions is None else positions(torch.arange(n), torch.float32).detach()
