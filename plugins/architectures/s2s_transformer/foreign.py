"""What the formats of other programs have in common when a Transformer is written in them."""

from __future__ import annotations

__all__ = ["PAPER", "SIDES", "TransformerFormat", "encodings", "n_layers"]

from typing import TYPE_CHECKING, Any

import torch

from s2s import ConfigError
from s2s.foreign import ForeignFormat
from s2s.nn import Sinusoids
from s2s_transformer import TransformerConfig
from s2s_transformer.layers import heads

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from s2s import Choice

PAPER = {
    "norm_kind": ("layer",),
    "gated": (False,),
    "attention_score": ("scaled_dot",),
    "self_attention": ("full",),
    "cross_attention": ("soft",),
    "guide": ("none",),
    "words": ("tokens",),
    "bias": (True,),
    "embedding_norm": (False,),
    "position_offset": (0,),
    "scale_positions": (True, False),
    "scale_output": (False,),
    "zero_start": (False,),
    "decoder_self_attention": ("attention",),
}
"""Options that no format has yet, with the values that all can express"""
SIDES = ("encoder", "decoder")


class TransformerFormat(ForeignFormat):
    """A format whose heads are d_model / n_heads wide."""

    def write_options(self, config: Choice) -> dict[str, Any]:
        """As in the base class; raises ConfigError for heads of other widths or fewer heads of keys, too."""
        assert isinstance(config, TransformerConfig)
        own, width = heads(config), config.d_model // config.n_heads
        if (own.d_k, own.d_v, own.n_kv_heads) != (width, width, config.n_heads) or config.d_model % config.n_heads:
            raise ConfigError(
                f"arch.d_k={own.d_k}, d_v={own.d_v}, n_kv_heads={own.n_kv_heads}: {self.title} has only heads of width "
                f"d_model / n_heads, each with keys and values of its own"
            )
        return super().write_options(config)


def n_layers(config: TransformerConfig) -> dict[str, int]:
    """Side -> its number of layers."""
    return {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}


def encodings(positions: str, d_model: int) -> Callable[[int], Tensor]:
    """Function of n -> the encodings of the first n positions, [n, d_model]; zeros for positions=none"""
    if positions == "none":
        return lambda n: torch.zeros(n, d_model)
    sinusoids = Sinusoids(d_model, "t2t" if positions == "sinusoid_t2t" else "paper")
    return lambda n: sinusoids(torch.arange(n), torch.float32)
