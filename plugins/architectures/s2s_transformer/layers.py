"""The layers of encoder and decoder (section 3.1).

Everything but attention works position by position, so inputs are [..., D], for any layout of sentences in memory.
Shapes: T target length, S source length, D = d_model.
"""

from __future__ import annotations

__all__ = ["DecoderLayer", "EncoderLayer", "stack", "stack_norm"]

from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from torch import Tensor, nn
from torch.nn import functional as F

from s2s.backend import linear, operators
from s2s.nn import CrossAttention, Dropout, Heads, KeysValues, Layout, Linear, SelfAttention, must_be_called
from s2s_transformer.scores import AdaptedCrossAttention, AdaptedSelfAttention
from s2s_transformer.ssru import SSRU

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from s2s_transformer import TransformerConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = self_attention(config)
        self.feed_forward = FeedForward(config)
        self.attention_residual = ResidualConnection(config)
        self.feed_forward_residual = ResidualConnection(config)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """[..., S, D] -> [..., S, D]"""
        x = self.attention_residual(x, lambda x: self.attention(x, layout))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention over the tokens so far, attention over the source, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        is_ssru = config.decoder_self_attention == "ssru"
        self.attention = SSRU(config.d_model, bias=config.bias) if is_ssru else self_attention(config)
        self.cross_attention = cross_attention(config) if config.cross_attention == "soft" else None
        self.feed_forward = FeedForward(config)
        self.attention_residual = ResidualConnection(config)
        if self.cross_attention:
            self.cross_attention_residual = ResidualConnection(config)
        self.feed_forward_residual = ResidualConnection(config)

    def forward(self, x: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout) -> Tensor:
        """[..., T, D], memory [..., S, D] -> [..., T, D]; in training all computation of a layer happens here, since
        train.strategy=fsdp gathers its parameters only during the call."""
        return self.attend(x, layout, memory, memory_layout)

    def keys_values(self, memory: Tensor) -> KeysValues | None:
        """[..., S, D] -> those of cross-attention, if there is any"""
        return self.cross_attention.keys_values(memory) if self.cross_attention else None

    def attend(self, x: Tensor, layout: Layout, memory: Tensor | KeysValues | None, memory_layout: Layout) -> Tensor:
        """The same; memory: or its precomputed keys and values, None without cross-attention"""
        x = self.attention_residual(x, lambda x: self.attention(x, layout))
        attention = self.cross_attention
        if attention and memory is not None:
            x = self.cross_attention_residual(x, lambda x: attention(x, memory, memory_layout))
        return self.feed_forward_residual(x, self.feed_forward)


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, at each position separately (equation 2)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.inner = Linear(config.d_model, config.d_ff, config.bias)
        self.gate = Linear(config.d_model, config.d_ff, config.bias) if config.gated else None
        self.out = Linear(config.d_ff, config.d_model, config.bias)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.relu_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]"""
        if self._is_plain():
            return linear.apply_feed_forward(x, self.inner.weight_and_bias(), self.out.weight_and_bias())
        inner = self.activation(self.inner(x))
        return self.out(self.dropout(inner if self.gate is None else inner * self.gate(x)))

    def _is_plain(self) -> bool:
        """Whether it is two linear maps of their own weights around a relu, with nothing that a module adds."""
        if self.activation is not F.relu or self.gate is not None or self.dropout.p_now:
            return False
        return all(isinstance(m, Linear) and m.is_plain for m in (self.inner, self.out))


class ResidualConnection(nn.Module):
    """Dropout of a sub-layer's output, the residual sum, and the norm after it (or before the sub-layer)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = norm(config)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """[..., D] -> [..., D]"""
        p = self.dropout.p_now
        if self.pre:
            return operators.add_dropout(x, sublayer(self.norm(x)), p)
        if isinstance(self.norm, nn.LayerNorm) and not must_be_called(self.norm):
            return operators.add_dropout_norm(x, sublayer(x), p, self.norm)
        return self.norm(operators.add_dropout(x, sublayer(x), p))


def self_attention(config: TransformerConfig) -> SelfAttention:
    """Self-attention with the scores and heads that the configuration names."""
    if not is_adapted(config) and config.positions not in ("rotary", "relative"):
        return SelfAttention(config.d_model, heads(config), config.attention_dropout, bias=config.bias)
    return AdaptedSelfAttention(config, heads(config))


def cross_attention(config: TransformerConfig) -> CrossAttention:
    """Attention to the source with the scores and heads that the configuration names."""
    if not is_adapted(config):
        return CrossAttention(config.d_model, heads(config), config.attention_dropout, bias=config.bias)
    return AdaptedCrossAttention(config, heads(config))


def is_adapted(config: TransformerConfig) -> bool:
    """Whether scores or heads differ from the paper's."""
    return config.attention_score != "scaled_dot" or heads(config).n_kv_heads != config.n_heads


def heads(config: TransformerConfig) -> Heads:
    """The heads' widths, which default to d_model / n_heads."""
    width = config.d_model // config.n_heads
    return Heads(
        config.n_heads,
        d_k=width if config.d_k is None else config.d_k,
        d_v=width if config.d_v is None else config.d_v,
        n_kv=config.n_kv_heads,
    )


def norm(config: TransformerConfig) -> nn.LayerNorm | nn.RMSNorm:
    """The normalisation of D values that `arch.norm_kind` names."""
    kind = nn.LayerNorm if config.norm_kind == "layer" else nn.RMSNorm
    return kind(config.d_model, eps=config.norm_eps)


def stack_norm(config: TransformerConfig) -> nn.Module:
    """Pre-norm layers do not normalise their sum, so one norm follows the stack; post-norm layers end with a norm."""
    return norm(config) if config.norm == "pre" else nn.Identity()


Layer = TypeVar("Layer", bound=nn.Module)


def stack(layers: Iterable[Layer]) -> list[Layer]:
    """A ModuleList, cast since torch's type for it does not include the type of its elements."""
    return cast("list[Layer]", nn.ModuleList(layers))
