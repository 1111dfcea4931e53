"""Encoder, decoder, and decoding step by step.

Shapes: B sentences, K hypotheses, S source length, T target length, D = d_model, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["Transformer"]

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from s2s import AttentionMap, ConfigError, Memory, Seq2Seq, State
from s2s.backend import bucket_size
from s2s.nn import (
    KERNELS,
    CachedAttention,
    Dropout,
    Embeddings,
    KeysValues,
    KVCacheState,
    LearnedPositions,
    Padded,
    PaddedWithWeights,
    Projections,
    Sinusoids,
    VarlenLayout,
    empty_kv_cache,
    recording_weights,
)
from s2s_transformer.cost import forward_operations
from s2s_transformer.layers import DecoderLayer, EncoderLayer, fused_decoder, heads, stack_norm
from s2s_transformer.regularization import LayerDrop, WordDropout
from s2s_transformer.restricted import Restricted, recent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s import Packing, SequenceOffsets, Side, Vocab
    from s2s.backend import FusedDecoder
    from s2s.nn import Layout
    from s2s_transformer import TransformerConfig


class Transformer(Seq2Seq):
    """The paper's model (Figure 1)."""

    def __init__(self, config: TransformerConfig, vocab: Vocab) -> None:
        super().__init__()
        self.config, self.vocab = config, vocab
        flash = heads(config).d_k == heads(config).d_v and config.attention_dropout == 0  # what it asks for
        self.packs = flash and config.self_attention == "full"
        self.embeddings = Embeddings(vocab, config.d_model, config.share_embeddings)
        self.src_positions, self.tgt_positions = positions(config), positions(config)
        self.dropout = Dropout(config.dropout)
        self.src_word_dropout = WordDropout(config.src_word_dropout)
        self.tgt_word_dropout = WordDropout(config.tgt_word_dropout)
        self.decoder_layer_drop = LayerDrop(config.decoder_layer_drop)
        self.encoder = stack(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        self.encoder_norm = stack_norm(config)
        self.decoder = stack(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        self.decoder_norm = stack_norm(config)
        self.kernel = KERNELS[config.attention]
        self.max_len = config.max_positions if config.positions == "learned" else None
        self.fused_decoder: FusedDecoder | None = None
        self.init_weights()

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        """src, pad [B, S] -> hidden [B, S, D]"""
        x = self._enter(self.src_word_dropout(self.embeddings.source(src)), self.src_positions)
        return Memory(self._encode(x, self._source_layout(pad, x.dtype)), pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, D]. Padding needs no hiding: it ends a target, and nobody looks ahead."""
        x = self._enter(self.tgt_word_dropout(self.embeddings.target(tgt)), self.tgt_positions)
        memory_layout = Padded.masking(memory.pad, x.dtype, self.kernel)
        return self._decode(x, self._target_layout(tgt), memory.hidden, memory_layout)

    def _source_layout(self, pad: Tensor, dtype: torch.dtype) -> Padded:
        """Of the encoder's self-attention: pad [B, S]"""
        if self.config.self_attention == "restricted":
            return Restricted(self.kernel, self.config.neighbourhood // 2, pad, causal=False)
        return Padded.masking(pad, dtype, self.kernel)

    def _target_layout(self, tgt: Tensor) -> Padded:
        """Of the decoder's self-attention: tgt [B, T], whose padding needs no hiding."""
        if self.config.self_attention == "restricted":
            nothing = torch.zeros_like(tgt, dtype=torch.bool)
            return Restricted(self.kernel, self.config.neighbourhood // 2, nothing, causal=True)
        return Padded(self.kernel, causal=True)

    def forward(self, src: Tensor, pad: Tensor, tgt: Tensor, packing: Packing | None = None) -> Tensor:
        """src, pad [B, S], tgt [B, T] -> [B, T, D]; of sentences end to end, src, pad [N], tgt [N'] -> [N', D]"""
        if packing is None:
            return super().forward(src, pad, tgt)
        sources, targets = packing.src, packing.tgt
        x = self._enter(self.src_word_dropout(self.embeddings.source(src)), self.src_positions, sources)
        memory = self._encode(x, VarlenLayout(sources, sources, self.kernel))
        x = self._enter(self.tgt_word_dropout(self.embeddings.target(tgt)), self.tgt_positions, targets)
        layout = VarlenLayout(targets, targets, self.kernel, causal=True)
        return self._decode(x, layout, memory, VarlenLayout(targets, sources, self.kernel))

    def _encode(self, x: Tensor, layout: Layout) -> Tensor:
        """[..., S, D] -> [..., S, D]"""
        for layer in self.encoder:
            x = layer(x, layout)
        return self.encoder_norm(x)

    def _decode(self, x: Tensor, layout: Layout, memory: Tensor, memory_layout: Layout) -> Tensor:
        """[..., T, D], memory [..., S, D] -> [..., T, D]"""
        for layer in self.decoder:
            x = self.decoder_layer_drop(layer(x, layout, memory, memory_layout), x)
        return self.decoder_norm(x)

    def project(self, hidden: Tensor) -> Tensor:
        """[..., D] -> logits [..., V]"""
        return self.embeddings.logits(hidden)

    def vocab_rows(self) -> dict[str, Side]:
        """The matrices of source, target and softmax."""
        return self.embeddings.vocab_rows("embeddings")

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float:
        """Operations of one forward pass over pairs of these lengths."""
        return forward_operations(self.config, self.vocab, src, tgt)

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor:
        """src, pad [B, S], tgt [B, T] -> [B, T, S], the mean of a decoder layer's heads: of the last but one if nothing
        else is said, which aligns best (Garg et al., 2019, section 4.1)."""
        n_layers = len(self.decoder)
        layer = max(1, n_layers - 1) if layer is None else layer
        if not 1 <= layer <= n_layers:
            raise ConfigError(f"attention_layer={layer}: the decoder has {n_layers}, numbered from 1")
        memory = self.encode(src, pad)
        x = self._enter(self.tgt_word_dropout(self.embeddings.target(tgt)), self.tgt_positions)
        seen = PaddedWithWeights.masking(pad, x.dtype, self.kernel)
        for of_decoder in list(self.decoder)[:layer]:
            x = of_decoder(x, self._target_layout(tgt), memory.hidden, seen)
        assert seen.weights is not None
        return seen.weights.float().mean(1)

    def attention_maps(self, src: Tensor, pad: Tensor, tgt: Tensor) -> list[AttentionMap]:
        """src, pad [B, S], tgt [B, T] -> each layer's weights, [B, h, S, S], [B, h, T, T] and [B, h, T, S]."""
        with recording_weights(self) as weights:
            self(src, pad, tgt)
        maps = [AttentionMap("encoder", n, "src", "src", weights[of.attention]) for n, of in enumerate(self.encoder, 1)]
        for n, layer in enumerate(self.decoder, 1):
            maps.append(AttentionMap("decoder", n, "tgt", "tgt", weights[layer.attention]))
            maps.append(AttentionMap("cross", n, "tgt", "src", weights[layer.cross_attention]))
        return maps

    def start(self, memory: Memory) -> Decoding:
        """Each layer's keys and values of the source, once per sentence; of the target, none yet."""
        self.fused_decoder = self.fused_decoder or fused_decoder(self.decoder, self.config)
        sources = [
            KeysValues(*(x.contiguous() for x in layer.cross_attention.keys_values(memory.hidden)))
            for layer in self.decoder
        ]
        heads = [layer.attention.heads for layer in self.decoder]
        state = empty_kv_cache((sources, ~memory.pad), len(memory.pad), heads, like=sources[0].k)
        return Decoding(**vars(state), positions=memory.hidden.flatten(0, 1)[:0])

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]. A sentence's hypotheses are queries to one copy of its source."""
        assert isinstance(state, Decoding)
        x, state = self.embeddings.target(token), state.extend()
        if self.tgt_positions is not None:
            if state.max_length > len(state.positions):
                state = replace(state, positions=self._first_positions(self.tgt_positions, state.max_length, x))
            x = x + state.positions[state.length - 1][:, None]
        x = self.dropout(x)
        return self.project(self.decoder_norm(self._step(x, state))), state

    def _step(self, x: Tensor, state: Decoding) -> Tensor:
        """The newest tokens through all layers, which write their keys and values: [B, K, D] -> [B, K, D]"""
        sources, seen = state.sentence
        if self.fused_decoder is not None and not self.training:
            return self.fused_decoder(x, state.nodes, state.hypothesis, state.length, sources, seen)
        memory_layout = Padded.masking(~seen, x.dtype, self.kernel)
        if self.config.self_attention == "restricted":
            layouts = recent(state, self.kernel, self.config.neighbourhood // 2)
        else:
            layouts = CachedAttention.of_layers(state, self.kernel)
        for layer, source, layout in zip(self.decoder, sources, layouts, strict=True):
            x = layer.attend(x, layout, source, memory_layout)
        return x

    def _enter(self, x: Tensor, positions: Positions | None, offsets: SequenceOffsets | None = None) -> Tensor:
        """Embeddings [B, T, D] of whole sentences, or [N, D] of such that lie end to end -> the first layer's input."""
        if positions is not None:
            length = offsets.max_seqlen if offsets else x.size(1)
            positions.check(length)
            vectors = positions(torch.arange(length, device=x.device), x.dtype)  # [L, D]
            x = x + (vectors.index_select(0, offsets.positions) if offsets else vectors)
        return self.dropout(x)

    def _first_positions(self, positions: Positions, n: int, like: Tensor) -> Tensor:
        """Vectors of the first `n` positions and of as many to come, [2 n, D], so that few steps compute any."""
        positions.check(n)
        n_vectors = min(2 * n, self.max_len or 2 * n)
        return positions(torch.arange(n_vectors, device=like.device), like.dtype)

    @torch.no_grad()
    def init_weights(self) -> None:
        """All weights: Glorot-uniform maps, N(0, 1 / D) embeddings and positions, norms 1, biases 0."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                parts = module.parts if isinstance(module, Projections) else (module.out_features,)
                for weight in module.weight.split(parts):  # each map for itself: the bound depends on its shape
                    nn.init.xavier_uniform_(weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
                module.reset_parameters()
            elif isinstance(module, LearnedPositions):
                nn.init.normal_(module.weight, std=module.weight.size(1) ** -0.5)
            elif isinstance(module, Embeddings):
                module.init_weights()


@dataclass
class Decoding(KVCacheState):
    """The sentence's half is each layer's keys and values of the source, and where it `seen` [B, S] is a token."""

    positions: Tensor = field(kw_only=True)
    """Vectors of the first positions, [P, D]: what belongs to no sentence"""

    def join(self, other: Self) -> Self:
        """The sentences of both, these first, as wide as the longest source that is still there."""
        return super(Decoding, self._cut()).join(other)

    def _cut(self) -> Self:
        sources, seen = self.sentence
        n = seen.size(1)
        longest = n and int((seen.any(0) * torch.arange(1, 1 + n, device=seen.device)).amax())
        longest = min(n, bucket_size(longest, seen.device, least=32))
        sources = [KeysValues(*(x[:, :, :longest] for x in source)) for source in sources]
        return replace(self, sentence=(sources, seen[:, :longest]))


Layer = TypeVar("Layer", bound=nn.Module)


def stack(layers: Iterable[Layer]) -> list[Layer]:
    """A ModuleList, for which torch has no type that knows its elements."""
    return cast("list[Layer]", nn.ModuleList(layers))


Positions = Sinusoids | LearnedPositions


def positions(config: TransformerConfig) -> Positions | None:
    """What `arch.positions` names; encoder and decoder each have their own."""
    if config.positions in ("none", "rotary"):
        return None
    if config.positions == "learned":
        return LearnedPositions(config.max_positions, config.d_model)
    return Sinusoids(config.d_model, "t2t" if config.positions == "sinusoid_t2t" else "paper")
