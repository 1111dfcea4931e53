"""The layers of encoder and decoder (section 3.1).

Everything but attention works position by position, so inputs are [..., D], however sentences lie in memory.
Shapes: B sentences, K hypotheses, T target length, S source length, t symbols so far, D = d_model, h heads.
"""

from __future__ import annotations

__all__ = ["DecoderLayer", "EncoderLayer", "Growing", "stack_norm"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s.nn.attention import CrossAttention, Heads, Kernel, KeysValues, Layout, SelfAttention
from s2s.nn.dropout import Dropout

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s_transformer import TransformerConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.d_model, heads(config), config.attention_dropout)
        self.feed_forward = FeedForward(config)
        self.around_attention = Around(config)
        self.around_feed_forward = Around(config)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """[..., S, D] -> [..., S, D]"""
        x = self.around_attention(x, lambda x: self.attention(x, layout))
        return self.around_feed_forward(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention over the symbols so far, attention over the source, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.d_model, heads(config), config.attention_dropout)
        self.cross_attention = CrossAttention(config.d_model, heads(config), config.attention_dropout)
        self.feed_forward = FeedForward(config)
        self.around_attention = Around(config)
        self.around_cross_attention = Around(config)
        self.around_feed_forward = Around(config)

    def forward(self, x: Tensor, layout: Layout, memory: KeysValues, memory_layout: Layout) -> Tensor:
        """[..., T, D] -> [..., T, D]"""
        x = self.around_attention(x, lambda x: self.attention(x, layout))
        x = self.around_cross_attention(x, lambda x: self.cross_attention(x, memory, memory_layout))
        return self.around_feed_forward(x, self.feed_forward)


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, at each position alone (equation 2)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.out = nn.Linear(config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.relu_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]"""
        return self.out(self.dropout(self.activation(self.inner(x))))


class Around(nn.Module):
    """What stands around every sub-layer: dropout, the residual sum, and the norm after it (or before it)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """[..., D] -> [..., D]"""
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


@dataclass
class Growing:
    """The layout of one decoding step: the newest symbol of each hypothesis sees itself and all before it.

    Its keys and values are added to `past` on the way, so that one layer serves training and decoding.
    """

    kernel: Kernel
    past: KeysValues
    """[B, K, h, t, d]"""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
        """q, k, v [B, h, K, d] -> [B, h, K, d_v]; K stands where a sentence has its positions."""
        newest = (x.transpose(1, 2).unsqueeze(3) for x in (k, v))  # [B, K, h, 1, d]
        self.past = KeysValues(*(torch.cat(pair, dim=3) for pair in zip(self.past, newest, strict=True)))
        flat = q.transpose(1, 2).unsqueeze(3).flatten(0, 1)  # [B * K, h, 1, d_k]
        seen = self.kernel(flat, self.past.k.flatten(0, 1), self.past.v.flatten(0, 1), None, False, dropout)
        return seen.squeeze(2).unflatten(0, (q.size(0), q.size(2))).transpose(1, 2)


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
