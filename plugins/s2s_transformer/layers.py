"""The layers of encoder and decoder (section 3.1).

Everything but attention works position by position, so inputs are [..., D], however sentences lie in memory.
Shapes: T target length, S source length, D = d_model.
"""

from __future__ import annotations

__all__ = ["DecoderLayer", "EncoderLayer", "fused_decoder", "stack", "stack_norm"]

from typing import TYPE_CHECKING, TypeVar, cast

from torch import Tensor, nn
from torch.nn import functional as F

from s2s.backend import DecoderSublayers, FusedDecoder, PrepackedLinear, add_norm, linear_function
from s2s.nn import CrossAttention, Dropout, Heads, KeysValues, Layout, Linear, SelfAttention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from s2s_transformer import TransformerConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.d_model, heads(config), config.attention_dropout)
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
        self.attention = SelfAttention(config.d_model, heads(config), config.attention_dropout)
        self.cross_attention: CrossAttention | None = None
        if config.cross_attention == "soft":
            self.cross_attention = CrossAttention(config.d_model, heads(config), config.attention_dropout)
        self.feed_forward = FeedForward(config)
        self.attention_residual = ResidualConnection(config)
        if self.cross_attention:
            self.cross_attention_residual = ResidualConnection(config)
        self.feed_forward_residual = ResidualConnection(config)

    def forward(self, x: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout) -> Tensor:
        """[..., T, D], memory [..., S, D] -> [..., T, D]; in training all that a layer computes is in here, since
        train.strategy=fsdp gathers its parameters for the time of the call."""
        return self.attend(x, layout, self.keys_values(memory), memory_layout)

    def keys_values(self, memory: Tensor) -> KeysValues | None:
        """[..., S, D] -> those of cross-attention, if there is any"""
        return self.cross_attention.keys_values(memory) if self.cross_attention else None

    def attend(self, x: Tensor, layout: Layout, memory: KeysValues | None, memory_layout: Layout) -> Tensor:
        """The same, with keys and values of the memory that were computed before."""
        x = self.attention_residual(x, lambda x: self.attention(x, layout))
        attention = self.cross_attention
        if attention and memory:
            x = self.cross_attention_residual(x, lambda x: attention(x, memory, memory_layout))
        return self.feed_forward_residual(x, self.feed_forward)


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, at each position alone (equation 2)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.inner = Linear(config.d_model, config.d_ff)
        self.out = Linear(config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.relu_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]"""
        return self.out(self.dropout(self.activation(self.inner(x))))


class ResidualConnection(nn.Module):
    """Dropout of a sub-layer's output, the residual sum, and the norm after it (or before the sub-layer)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """[..., D] -> [..., D]"""
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        return add_norm(x, self.dropout(sublayer(x)), self.norm)


def heads(config: TransformerConfig) -> Heads:
    """The heads' widths, which are d_model / n_heads where nothing else is said."""
    width = config.d_model // config.n_heads
    return Heads(
        config.n_heads,
        d_k=width if config.d_k is None else config.d_k,
        d_v=width if config.d_v is None else config.d_v,
    )


def stack_norm(config: TransformerConfig) -> nn.Module:
    """Pre-norm layers leave their sum bare, so one norm follows the stack; post-norm layers end in theirs."""
    if config.norm == "pre":
        return nn.LayerNorm(config.d_model, eps=config.norm_eps)
    return nn.Identity()


def fused_decoder(layers: Iterable[DecoderLayer], config: TransformerConfig) -> FusedDecoder | None:
    """Their step as one function in C; None if it does not support the configuration or their weights are not
    prepacked for it."""
    sublayers = [_sublayers(layer) for layer in layers]
    if config.activation != "relu" or None in sublayers:
        return None
    own = heads(config)
    return FusedDecoder([s for s in sublayers if s], (own.n, own.d_k, own.d_v), pre_norm=config.norm == "pre")


def _sublayers(layer: DecoderLayer) -> DecoderSublayers | None:
    own, source, feed_forward = layer.attention, layer.cross_attention, layer.feed_forward
    if source is None or not isinstance(feed_forward, FeedForward):  # a plugin may have put another module there
        return None
    modules = (own.qkv, own.out, source.q, source.out, feed_forward.inner, feed_forward.out)
    norms = (layer.attention_residual.norm, layer.cross_attention_residual.norm, layer.feed_forward_residual.norm)
    linears = [linear for linear in map(linear_function, modules) if isinstance(linear, PrepackedLinear)]
    return DecoderSublayers(linears, norms) if len(linears) == len(modules) else None


Layer = TypeVar("Layer", bound=nn.Module)


def stack(layers: Iterable[Layer]) -> list[Layer]:
    """A ModuleList, for which torch has no type that knows its elements."""
    return cast("list[Layer]", nn.ModuleList(layers))
