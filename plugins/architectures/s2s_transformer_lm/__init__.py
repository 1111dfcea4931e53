"""A decoder without a source, as a plugin: the language model whose scores shallow fusion adds to a model's."""

from __future__ import annotations

__all__ = ["TransformerLMConfig", "s2s_register"]

from dataclasses import dataclass

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import SHARE, at_least, check_ranges


@dataclass(kw_only=True)
class TransformerLMConfig(Choice):
    """Self-attention over the tokens so far, normalised before each sub-layer (Radford et al., 2019)."""

    n_layers: int = 6
    """Layers."""
    d_model: int = 512
    """Width of embeddings and of every layer's output; embeddings and softmax are tied."""
    d_ff: int = 2048
    """Inner width of the feed-forward sub-layer."""
    n_heads: int = 8
    """Attention heads, each d_model / n_heads wide."""
    dropout: float = 0.1
    """Dropout on each sub-layer's output before the residual sum, and on embedding plus position."""
    norm_eps: float = 1e-5
    """Added to the variance in layer normalisation."""

    def __post_init__(self) -> None:
        check_ranges("arch", self, **dict.fromkeys(("n_layers", "d_model", "d_ff", "n_heads"), at_least(1)))
        check_ranges("arch", self, dropout=SHARE, norm_eps=at_least(0))
        if self.d_model % self.n_heads or self.d_model % 2:
            raise ConfigError(f"arch.d_model={self.d_model} must be even and a multiple of arch.n_heads={self.n_heads}")


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.arch("transformer_lm", TransformerLMConfig, "s2s_transformer_lm.model:TransformerLM")
