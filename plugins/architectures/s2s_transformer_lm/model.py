"""p(y), one token at a time.

Shapes: B sentences, K hypotheses, S source length, T target length, D = d_model, V target vocabulary; N positions of
packed sentences.
"""

from __future__ import annotations

__all__ = ["TransformerLM"]

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s import AttentionMap, Memory, Seq2Seq, State
from s2s.nn import (
    KERNELS,
    CachedAttention,
    Dropout,
    Embeddings,
    Heads,
    KVCacheState,
    Linear,
    PaddedLayout,
    Projections,
    SelfAttention,
    Sinusoids,
    VarlenLayout,
    empty_kv_cache,
    recording_weights,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Packing, Side, Vocab
    from s2s.nn import Layout
    from s2s_transformer_lm import TransformerLMConfig


class TransformerLM(Seq2Seq):
    """A decoder that ignores the source."""

    supports_packing = True

    def __init__(self, config: TransformerLMConfig, vocab: Vocab) -> None:
        super().__init__()
        self.config, self.vocab = config, vocab
        self.embeddings = Embeddings(replace(vocab, src=vocab.tgt, joint=True), config.d_model, "shared")
        self.positions = Sinusoids(config.d_model, "paper")
        self.dropout = Dropout(config.dropout)
        self.layers = cast("list[Layer]", nn.ModuleList(Layer(config) for _ in range(config.n_layers)))
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.kernel = KERNELS["auto"]
        self.init_weights()

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        """src, pad [B, S] -> hidden [B, S, 0]"""
        return Memory(torch.zeros(*pad.shape, 0, device=pad.device), pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, D]. Padding needs no mask: it comes at the end, and attention is causal."""
        x = self.embeddings.target(tgt)
        position = torch.arange(tgt.size(1), device=tgt.device)
        return self._through(x + self.positions(position, x.dtype), self._each(PaddedLayout(self.kernel, causal=True)))

    def forward(self, src: Tensor, pad: Tensor, tgt: Tensor, packing: Packing | None = None) -> Tensor:
        """src, pad [B, S], tgt [B, T] -> [B, T, D]; for packed sentences, tgt [N] -> [N, D]"""
        if packing is None:
            return super().forward(src, pad, tgt)
        x, offsets = self.embeddings.target(tgt), packing.tgt
        layout = VarlenLayout(offsets, offsets, self.kernel, causal=True)
        return self._through(x + self.positions(offsets.positions, x.dtype), self._each(layout))

    def project(self, hidden: Tensor) -> Tensor:
        """[..., D] -> logits [..., V]"""
        return self.embeddings.logits(hidden)

    def vocab_rows(self) -> dict[str, Side]:
        """The matrices of source, target and softmax."""
        return self.embeddings.vocab_rows("embeddings")

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float:
        """Operations of all products over targets of these lengths, without the masked half of causal attention."""
        d, lengths = self.config.d_model, np.asarray(tgt, dtype=float)
        layer = lengths.sum() * (4 * d * d + 2 * d * self.config.d_ff) + d * (lengths**2).sum()
        return float(2 * (self.config.n_layers * layer + lengths.sum() * d * self.vocab.tgt))

    def attention_maps(self, src: Tensor, pad: Tensor, tgt: Tensor) -> list[AttentionMap]:
        """tgt [B, T] -> each layer's weights [B, h, T, T]."""
        with recording_weights(self) as weights:
            self(src, pad, tgt)
        return [
            AttentionMap("decoder", n, "tgt", "tgt", weights[layer.attention]) for n, layer in enumerate(self.layers, 1)
        ]

    def start(self, memory: Memory) -> KVCacheState:
        """The empty prefix."""
        any_token = self.embeddings.target(torch.zeros(1, dtype=torch.long, device=memory.pad.device))
        first = self.layers[0].attention.qkv(any_token)[0]  # in autocast's dtype
        return empty_kv_cache(None, len(memory.pad), [layer.attention.heads for layer in self.layers], like=first)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]"""
        assert isinstance(state, KVCacheState)
        x, state = self.embeddings.target(token), state.extend()
        x = x + self.positions(state.length - 1, x.dtype)[:, None]
        return self.project(self._through(x, CachedAttention.for_layers(state, self.kernel))), state

    def _each(self, layout: Layout) -> list[Layout]:
        return [layout] * self.config.n_layers

    def _through(self, x: Tensor, layouts: Sequence[Layout]) -> Tensor:
        """[..., D] -> [..., D], with one layout per layer."""
        x = self.dropout(x)
        for layer, layout in zip(self.layers, layouts, strict=True):
            x = layer(x, layout)
        return self.norm(x)

    @torch.no_grad()
    def init_weights(self) -> None:
        """Linear maps Glorot-uniform, embeddings N(0, 1 / D), norms 1, biases 0."""
        self.embeddings.init_weights()
        for module in self.modules():
            if isinstance(module, nn.Linear):
                parts = module.parts if isinstance(module, Projections) else (module.out_features,)
                for weight in module.weight.split(parts):
                    nn.init.xavier_uniform_(weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()


class Layer(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, config: TransformerLMConfig) -> None:
        super().__init__()
        d, width = config.d_model, config.d_model // config.n_heads
        self.attention_norm, self.norm = (nn.LayerNorm(d, eps=config.norm_eps) for _ in range(2))
        self.attention = SelfAttention(d, Heads(config.n_heads, d_k=width, d_v=width), 0.0)
        self.inner, self.out = Linear(d, config.d_ff), Linear(config.d_ff, d)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """[..., D] -> [..., D]"""
        x = x + self.dropout(self.attention(self.attention_norm(x), layout))
        return x + self.dropout(self.out(F.gelu(self.inner(self.norm(x)))))
