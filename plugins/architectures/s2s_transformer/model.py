"""Encoder, decoder, and decoding step by step.

Shapes: B sentences, K hypotheses, S source length, T target length, D = d_model, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["Transformer"]

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from s2s import Memory, Seq2Seq, State
from s2s.backend import fused, linear
from s2s.nn import (
    KERNELS,
    Dropout,
    Embeddings,
    Guidance,
    PaddedLayout,
    PaddedLayoutWithWeights,
    SourceWords,
    VarlenLayout,
    WordDropout,
    WordLabels,
    recording_weights,
)
from s2s_transformer.attention_weights import attention_maps, cross_attention_weights, layer_number, mean_of_heads
from s2s_transformer.cost import forward_operations
from s2s_transformer.decoding import GuidedMemory, TransformerState, first_state, listed_logits
from s2s_transformer.fused import (
    first_positions,
    fused_decoder,
    fused_encoder,
    fused_model,
    fused_source,
    fused_state,
    must_call_layers,
)
from s2s_transformer.initialization import init_weights
from s2s_transformer.layers import DecoderLayer, EncoderLayer, heads, norm, stack, stack_norm
from s2s_transformer.layouts import source_layout, step_layouts, target_layout
from s2s_transformer.positions import Positions, positions
from s2s_transformer.regularization import LayerDrop
from s2s_transformer.relative_bias import relative_biases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import AttentionMap, Auxiliary, Packing, SequenceOffsets, Side, Vocab
    from s2s.nn import Layout
    from s2s_transformer import TransformerConfig


class Transformer(Seq2Seq):
    """The paper's model (Figure 1)."""

    reads_shortlists = True

    def __init__(self, config: TransformerConfig, vocab: Vocab) -> None:
        super().__init__()
        self.config, self.vocab = config, vocab
        flash = heads(config).d_k == heads(config).d_v and config.attention_dropout == 0  # its requirements
        products = config.attention_score != "additive" and config.positions not in ("relative", "relative_bias")
        self.supports_packing = flash and products and config.self_attention == "full"
        scaled, has_bias = config.scale_embeddings, config.output_bias
        self.embeddings = Embeddings(vocab, config.d_model, config.share_embeddings, scaled=scaled, has_bias=has_bias)
        self.src_positions, self.tgt_positions = positions(config), positions(config)
        self.src_bias, self.tgt_bias = relative_biases(config)
        norms = (norm(config) if config.embedding_norm else nn.Identity() for _ in range(2))
        self.src_embedding_norm, self.tgt_embedding_norm = norms
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
        self.fused_encoder: fused.FusedEncoder | None = None
        self.fused_decoder: fused.FusedDecoder | None = None
        self.fused_search: fused.StreamSearch | None = None
        self.words, self.pooled = SourceWords(vocab), config.words == "pooled"
        self.guidance: Guidance | None = None
        if config.guide != "none":
            d, p = config.d_model, config.dropout
            self.guidance = Guidance(vocab, config.guide, d, (d, d), pooled=self.pooled, dropout=p)
        self.supports_packing = self.supports_packing and not (self.guidance or self.pooled)
        self.ignores_labels = self.pooled
        self.labels: WordLabels | None = None
        if config.label_loss:
            self.labels = WordLabels(vocab, config.d_model, config.label_loss)
            self.auxiliary = self.labels.auxiliary
        init_weights(self)

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        """src, pad [B, S] -> hidden [B, S, D], or of pooled words [B, W, D]"""
        hidden, pad_of_x = self._encode_words(src, pad)
        if self.labels:
            self.labels.read(hidden, src, pad)
        if self.guidance is None:
            return Memory(hidden, pad_of_x)
        return GuidedMemory(hidden, pad_of_x, self.guidance.begin(hidden, src, pad))

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, D]. Padding needs no masking: it ends a target, and no position attends ahead."""
        x, guide = self.target_input(tgt, memory)
        layout = target_layout(self.config, self.kernel, tgt, x.dtype, self.tgt_bias)
        hidden = self._decode(x, layout, memory.hidden, PaddedLayout.from_padding(memory.pad, x.dtype, self.kernel))
        return self._guided(hidden, guide)

    def target_input(self, tgt: Tensor, memory: Memory) -> tuple[Tensor, Tensor | None]:
        """tgt [B, T] -> the first layer's input [B, T, D], and the guide's part of what the softmax reads"""
        x, guide = self._embed_target(tgt), None
        if self.guidance and isinstance(memory, GuidedMemory):
            at_input, guide = self.guidance(tgt, memory.guided)
            x = x + at_input
        return self._add_positions(x, self.tgt_positions, self.tgt_embedding_norm), guide

    def _embed_target(self, tgt: Tensor, offsets: SequenceOffsets | None = None) -> Tensor:
        """[B, T], or of packed sentences [N] -> [..., D]"""
        x = self.tgt_word_dropout(self.embeddings.target(tgt))
        if not self.config.zero_start:
            return x
        position = offsets.positions if offsets else torch.arange(tgt.size(-1), device=tgt.device)
        return x * (position > 0)[:, None]

    def _guided(self, hidden: Tensor, guide: Tensor | None) -> Tensor:
        """[..., D] of the last layer and of the guide -> [..., D]"""
        return hidden if guide is None or self.guidance is None else self.guidance.read_out(hidden, guide)

    def forward(self, src: Tensor, pad: Tensor, tgt: Tensor, packing: Packing | None = None) -> Tensor:
        """src, pad [B, S], tgt [B, T] -> [B, T, D]; for packed sentences, src, pad [N], tgt [N'] -> [N', D]"""
        if packing is None:
            return super().forward(src, pad, tgt)
        sources, targets = packing.src, packing.tgt
        x = self.src_word_dropout(self.embeddings.source(src))
        x = self._add_positions(x, self.src_positions, self.src_embedding_norm, sources)
        memory = self._encode(x, VarlenLayout(sources, sources, self.kernel))
        x = self._embed_target(tgt, targets)
        x = self._add_positions(x, self.tgt_positions, self.tgt_embedding_norm, targets)
        layout = VarlenLayout(targets, targets, self.kernel, causal=True)
        return self._decode(x, layout, memory, VarlenLayout(targets, sources, self.kernel))

    def _encode_words(self, src: Tensor, pad: Tensor) -> tuple[Tensor, Tensor]:
        """src, pad [B, S] -> hidden [B, S, D] and its padding, of pooled words [B, W, D]"""
        if self.pooled:
            x, pad_of_x = self.embeddings.source_words(self.words, src, pad)
        else:
            x, pad_of_x = self.embeddings.source(src), pad
        x = self._add_positions(self.src_word_dropout(x), self.src_positions, self.src_embedding_norm)
        return self._encode_padded(x, pad_of_x), pad_of_x

    def _encode_padded(self, x: Tensor, pad: Tensor) -> Tensor:
        """x [B, S, D], pad [B, S] -> [B, S, D], by one function if a plugin has it and no hook is to be called"""
        may_fuse = not (self.training or torch.is_grad_enabled() or torch.compiler.is_compiling())
        if may_fuse and not must_call_layers(self.encoder) and (encoder := self._fuse_encoder()):
            return encoder(x, pad)
        return self._encode(x, source_layout(self.config, self.kernel, pad, x.dtype, self.src_bias))

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
        return self.embeddings.logits(self._scaled(hidden))

    def output_matrix(self) -> Tensor | None:
        """See `Seq2Seq`; there is none for logits that are scaled, or of a class with another `project`"""
        plain = self.has_methods_of(Transformer, "project") and not self.config.scale_output
        return self.embeddings.output_matrix() if plain else None

    def _scaled(self, hidden: Tensor) -> Tensor:
        return hidden * hidden.size(-1) ** -0.5 if self.config.scale_output else hidden

    def label_logits(self, src: Tensor, pad: Tensor) -> Tensor | None:
        """src, pad [B, S] -> [B, W, L]; None without arch.label_loss"""
        return self.labels.map(self._encode_words(src, pad)[0]) if self.labels else None

    def record_auxiliary(self) -> None:
        """See `s2s.HasAuxiliary`, which this model implements with arch.label_loss."""
        assert self.labels is not None
        self.labels.record_auxiliary()

    def take_auxiliary(self) -> Auxiliary:
        """The loss of the words' labels."""
        assert self.labels is not None
        return self.labels.take_auxiliary()

    def vocab_rows(self) -> dict[str, Side]:
        """The matrices of source, target and softmax."""
        return self.embeddings.vocab_rows("embeddings")

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float | None:
        """Operations of one forward pass over pairs of these lengths; None with pooled words, whose number does not
        follow from the lengths, or with a guide."""
        if self.guidance or self.pooled:
            return None
        return forward_operations(self.config, self.vocab, src, tgt)

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor | None:
        """src, pad [B, S], tgt [B, T] -> [B, T, S], the mean of a decoder layer's heads; None without cross-attention.

        layer: see `layer_number`; None: that of arch.alignment_layer, and of its heads the first arch.alignment_heads.
        """
        n_heads = self.config.alignment_heads if layer is None else None
        number = self.config.alignment_layer if layer is None else layer
        layers = list(self.decoder)[: layer_number(number, len(self.decoder))]
        if self.config.cross_attention == "none":
            return None
        memory = self.encode(src, pad)
        x, _ = self.target_input(tgt, memory)
        layout = target_layout(self.config, self.kernel, tgt, x.dtype, self.tgt_bias)
        memory_layout = PaddedLayoutWithWeights.from_padding(memory.pad, x.dtype, self.kernel)
        weights = mean_of_heads(cross_attention_weights(layers, x, layout, memory.hidden, memory_layout), n_heads)
        return self.words.spread(weights, src, pad) if self.pooled else weights

    def forward_with_attention(self, src: Tensor, pad: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor | None]:
        """One pass, src, pad [B, S], tgt [B, T] -> hidden [B, T, D] and the attention for alignments [B, T, S]"""
        number = layer_number(self.config.alignment_layer, len(self.decoder))
        cross_attention = list(self.decoder)[number - 1].cross_attention
        if cross_attention is None:
            return self(src, pad, tgt), None
        with recording_weights(cross_attention) as recorded:
            hidden = self(src, pad, tgt)
        weights = mean_of_heads(recorded[cross_attention], self.config.alignment_heads)
        return hidden, self.words.spread(weights, src, pad) if self.pooled else weights

    def attention_maps(self, src: Tensor, pad: Tensor, tgt: Tensor) -> list[AttentionMap]:
        """src, pad [B, S], tgt [B, T] -> the weights of every layer; with pooled words, only those to the source."""
        if self.pooled:
            return list(super().attention_maps(src, pad, tgt))
        with recording_weights(self) as weights:
            self(src, pad, tgt)
        return attention_maps(self.encoder, self.decoder, weights)

    def start(self, memory: Memory) -> TransformerState:
        """Each layer's keys and values of the source, once per sentence, and none of the target yet."""
        self._fuse_decoder()
        return first_state(self.decoder, memory)

    def _fuse_encoder(self) -> fused.FusedEncoder | None:
        norm, bias = self.encoder_norm, self.src_bias
        self.fused_encoder = self.fused_encoder or fused_encoder(self.encoder, norm, self.config, bias)
        return self.fused_encoder

    def _fuse_decoder(self) -> fused.FusedDecoder | None:
        norm, bias = self.decoder_norm, self.tgt_bias
        self.fused_decoder = self.fused_decoder or fused_decoder(self.decoder, norm, self.config, bias)
        return self.fused_decoder

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]. All hypotheses of a sentence attend to one copy of its source."""
        assert isinstance(state, TransformerState)
        x, state, at_output = self.embeddings.target(token), state.extend(), None
        if self.config.zero_start:
            x = x * (state.length > 1)[:, None, None]
        if self.guidance:
            assert state.guide is not None
            (at_input, at_output), guide = self.guidance.step(token, state.sentence[2], state.guide)
            x, state = x + at_input, replace(state, guide=guide)
        if self.tgt_positions is not None:
            state = state.with_positions(self.tgt_positions, state.max_length, self.max_len)
            x = x + state.positions[state.length - 1][:, None]
        x = self.dropout(self.tgt_embedding_norm(x))
        state = state.with_columns(self.embeddings.logits_of)
        hidden = self._guided(self._step(x, state), at_output)
        if state.columns:
            part = state.columns.output(self._scaled(hidden))
            return listed_logits(part, state.columns.listed, state.columns.ids), state
        logits = self.project(hidden)
        return (logits if state.listed is None else listed_logits(logits, state.listed)), state

    def fused_state(self, state: State, beam: int) -> tuple[fused.FusedState, State] | None:
        """See `HasFusedState`; not available if a step differs from the one defined here."""
        same = self.has_methods_of(Transformer, "step", "project") and not self.training and not self.guidance
        if not same or not isinstance(state, TransformerState) or self.fused_decoder is None:
            return None
        if must_call_layers(self.decoder):
            return None
        model = fused_model(self.fused_decoder, self.embeddings, self.tgt_embedding_norm, self.config)
        if model is None:
            return None
        state = state.reserve(beam).with_columns(self.embeddings.logits_of)
        if self.tgt_positions is not None:
            state = state.with_positions(self.tgt_positions, state.max_length + 1, self.max_len)
        return fused_state(model, state, beam)

    def stream_search(self) -> fused.StreamSearch | None:
        """See `HasStreamSearch`; not available if the steps are not, or for a guide without labels."""
        plain = isinstance(self.src_embedding_norm, nn.Identity)
        same = self.has_methods_of(Transformer, "encode", "start", "step", "project", "fused_state")
        if not plain or not same or self.training or must_call_layers([*self.encoder, *self.decoder]):
            return None
        self.fused_search = self.fused_search or self._fuse_search()
        return self.fused_search

    def _fuse_search(self) -> fused.StreamSearch | None:
        if (encoder := self._fuse_encoder()) is None or (decoder := self._fuse_decoder()) is None:
            return None
        guidance = self.guidance.fused() if self.guidance else None
        if self.guidance and guidance is None:
            return None
        model = fused_model(decoder, self.embeddings, self.tgt_embedding_norm, self.config, guidance)
        source = fused_source(encoder, self.vocab.src, self.embeddings, self.decoder)
        if self.guidance or self.pooled:
            labels = linear.linear_function(self.labels.map) if self.labels else None
            source = source._replace(words=self.words.fused(pooled=self.pooled), labels=labels)
        tables = (partial(first_positions, positions) for positions in (self.src_positions, self.tgt_positions))
        return fused.stream_search(source, model, fused.PositionTables(*tables)) if model else None

    def _step(self, x: Tensor, state: TransformerState) -> Tensor:
        """The newest tokens through all layers, which write their keys and values: [B, K, D] -> [B, K, D]"""
        sources, seen, *_ = state.sentence
        if self.fused_decoder is not None and not self.training and not must_call_layers(self.decoder):
            return self.fused_decoder(x, fused.TreeCache(state.nodes, state.hypothesis, state.length, sources, seen))
        memory_layout = PaddedLayout.from_padding(~seen, x.dtype, self.kernel)
        layouts = step_layouts(self.config, self.kernel, state, self.tgt_bias)
        for layer, source, layout in zip(self.decoder, sources or [None] * len(self.decoder), layouts, strict=True):
            x = layer.attend(x, layout, source, memory_layout)
        return self.decoder_norm(x)

    def _add_positions(
        self, x: Tensor, positions: Positions | None, norm: nn.Module, offsets: SequenceOffsets | None = None
    ) -> Tensor:
        """Embeddings [B, T, D] of whole sentences, or [N, D] of packed ones -> the first layer's input."""
        if positions is not None:
            length = offsets.max_seqlen if offsets else x.size(1)
            positions.check(length)
            vectors = positions.first(length, x.dtype, x.device)  # [L, D]
            x = x + (vectors.index_select(0, offsets.positions) if offsets else vectors)
        return self.dropout(norm(x))
