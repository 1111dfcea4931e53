"""Checks that all export formats share."""

from __future__ import annotations

__all__ = ["check_heads_and_scale", "starting_token"]

from typing import TYPE_CHECKING

from s2s import ConfigError

if TYPE_CHECKING:
    from s2s import Vocab
    from s2s.intermediate import IntermediateModel


def starting_token(vocab: Vocab, form: str) -> int:
    """The token with which decoding begins; raises ConfigError where there are several."""
    if len(vocab.start) > 1:
        raise ConfigError(f"format={form} begins decoding with one token, but this run with {len(vocab.start)}")
    return vocab.start[0]


def check_heads_and_scale(model: IntermediateModel, form: str) -> None:
    """Raise ConfigError for a model whose heads are not d_model / n_heads wide or whose embeddings are scaled otherwise
    than by sqrt(d_model)."""
    for layer in (*model.encoder.layers, *model.decoder.layers):
        for attention in filter(None, (layer.attention, layer.cross)):
            widths = attention.q.weight.size(0), attention.v.weight.size(0)
            if widths != (model.d_model, model.d_model) or model.d_model % model.n_heads:
                raise ConfigError(
                    f"format={form} knows heads of width d_model / n_heads alone, but {model.n_heads} heads have "
                    f"keys and values of {widths[0]} and {widths[1]} numbers with d_model={model.d_model}"
                )
    if abs(model.scale - model.d_model**0.5) > 1e-6 * model.scale:
        raise ConfigError(f"format={form} multiplies embeddings by sqrt(d_model), but this model by {model.scale:g}")
