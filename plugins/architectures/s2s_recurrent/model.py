"""Recurrent encoder and decoder, and decoding step by step.

Shapes: B sentences, K hypotheses, S source length, T target length, E embedding width, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["RNN"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from s2s import ConfigError, Memory, Seq2Seq, State
from s2s.backend import fused, linear
from s2s.nn import Dropout, Guidance, Guided, Linear, SourceWords, WordDropout, WordLabels, must_be_called
from s2s_recurrent.attention import Attention
from s2s_recurrent.cells import Cell, GroupedLinear, Hidden
from s2s_recurrent.decoder import Decoded, Decoder
from s2s_recurrent.encoder import Encoder, d_memory, modules
from s2s_recurrent.fused import fused_layers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Auxiliary, Side, Vocab
    from s2s_recurrent import RNNConfig
    from s2s_recurrent.attention import Source

BAHDANAU_STD = 0.01
BAHDANAU_ATTENTION_STD = 0.001


@dataclass
class RecurrentMemory(Memory):
    """The encoder's outputs, and the decoder's first state."""

    start: tuple[Hidden, ...]
    """[B, ·] for each decoder layer; empty if they are zero"""
    guided: Guided | None = None
    """What a guide refers to"""


@dataclass
class RecurrentState(State):
    """`sentence` holds the source with its keys, or None without attention."""

    supports_join: ClassVar[bool] = True
    supports_capture: ClassVar[bool] = True


class RNN(Seq2Seq):
    """Encoder, attention and decoder as configured by `RNNConfig`."""

    def __init__(self, config: RNNConfig, vocab: Vocab) -> None:
        super().__init__()
        self.config, self.vocab = config, vocab
        d_embedding = config.d_embedding or config.d_model
        self.src = nn.Embedding(vocab.src, d_embedding, padding_idx=vocab.src_pad)
        self.tgt = nn.Embedding(vocab.tgt, d_embedding, padding_idx=vocab.pad)
        self.dropout = Dropout(config.dropout)
        self.src_word_dropout, self.tgt_word_dropout = (
            WordDropout(p) for p in (config.src_word_dropout, config.tgt_word_dropout)
        )
        self.encoder = Encoder(config, d_embedding)
        self.decoder = Decoder(config, d_embedding, d_memory(self.encoder))
        d_cell = config.d_projection or config.d_model
        n_starts = config.n_decoder_layers if config.start == "tanh" else 0
        self.words, self.ignores_labels = SourceWords(vocab), config.words == "pooled"
        self.guidance: Guidance | None = None
        if config.guide != "none":
            widths, pooled = (d_embedding, self.decoder.d_readout), config.words == "pooled"
            self.guidance = Guidance(
                vocab, config.guide, d_memory(self.encoder), widths, pooled=pooled, dropout=config.dropout
            )
        self.labels: WordLabels | None = None
        if config.label_loss:
            self.labels = WordLabels(vocab, d_memory(self.encoder), config.label_loss)
            self.auxiliary = self.labels.auxiliary
        self.fused_search: fused.StreamSearch | None = None
        self.starts = modules(Linear(d_cell, d_cell) for _ in range(n_starts))
        self.softmax = Linear(self.decoder.d_readout, vocab.tgt)
        self.init_weights()

    def encode(self, src: Tensor, pad: Tensor) -> RecurrentMemory:
        """src, pad [B, S] -> hidden [B, S, M]"""
        hidden, x_pad, finals = self._encode(src, pad)
        guided = self.guidance.begin(hidden, src, pad) if self.guidance else None
        if self.labels:
            self.labels.read(hidden, src, pad)
        if self.config.attention == "none":
            hidden = hidden[:, :, :0]  # the decoder sees nothing of it
        return RecurrentMemory(hidden, x_pad, self._first_states(finals), guided)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, R]"""
        decoded, beside = self._decode(tgt, memory)
        return self._guided(decoded.readout, beside)

    def project(self, hidden: Tensor) -> Tensor:
        """[..., R] -> logits [..., V]"""
        return self.softmax(hidden)

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor | None:
        """src, pad [B, S], tgt [B, T] -> [B, T, S]; None without attention. A token's weights are those of the step
        that predicts it."""
        if layer not in (None, 1):
            raise ConfigError(f"attention_layer={layer}: a recurrent decoder attends once, which is 1")
        weights = self._decode(tgt, self.encode(src, pad))[0].weights
        if weights is not None and self.config.words == "pooled":
            weights = self.words.spread(weights, src, pad)
        return None if weights is None else weights.float()

    def start(self, memory: Memory) -> RecurrentState:
        """The keys of the source once per sentence; the decoder's first state."""
        assert isinstance(memory, RecurrentMemory)
        state = self.decoder.begin(memory.start, memory.hidden)
        guided, guide = memory.guided or (None, None)
        return RecurrentState(sentence=(self._source(memory), guided), hypothesis=(state, guide))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]"""
        (source, guided), (hidden, guide) = state.sentence, state.hypothesis
        y, beside = self.tgt(token), None
        if self.guidance:
            (at_input, beside), guide = self.guidance.step(token, guided, guide)
            y = y + at_input
        decoded, hidden = self.decoder.step(y, hidden, source)
        return self.project(self._guided(decoded.readout, beside)), replace(state, hypothesis=(hidden, guide))

    def stream_search(self) -> fused.StreamSearch | None:
        """See `HasStreamSearch`, and `fused_layers`; not available without a guide that has labels, or if a module or a
        method does more than its class."""
        same = self.has_methods_of(RNN, "encode", "start", "step", "project") and not self.training
        if not same or any(map(must_be_called, self.modules())):
            return None
        self.fused_search = self.fused_search or self._build_search()
        return self.fused_search

    def _build_search(self) -> fused.StreamSearch | None:
        layers = fused_layers(self.config, self.encoder, self.decoder)
        guidance = self.guidance.fused() if self.guidance else None
        if layers is None or guidance is None:
            return None
        (encoder, decoder), (src, tgt) = layers, (table.weight.detach() for table in (self.src, self.tgt))
        words = self.words.fused(pooled=self.config.words == "pooled")
        labels = linear.linear_function(self.labels.map) if self.labels else None
        source = fused.FusedSource(encoder, len(src), src, 1.0, [], words, labels)
        target = fused.FusedModel(decoder, tgt, 1.0, linear.linear_function(self.softmax), guidance=guidance)
        return fused.stream_search(source, target, fused.PositionTables(lambda _: None, lambda _: None))

    def label_logits(self, src: Tensor, pad: Tensor) -> Tensor | None:
        """src, pad [B, S] -> [B, W, L]; None without arch.label_loss"""
        return self.labels.map(self._encode(src, pad)[0]) if self.labels else None

    def record_auxiliary(self) -> None:
        """See `s2s.HasAuxiliary`, which this model implements with arch.label_loss."""
        assert self.labels is not None
        self.labels.record_auxiliary()

    def take_auxiliary(self) -> Auxiliary:
        """The loss of the words' labels."""
        assert self.labels is not None
        return self.labels.take_auxiliary()

    def vocab_rows(self) -> dict[str, Side]:
        """Both embeddings, and the softmax's matrix and bias."""
        return {"src.weight": "src", "tgt.weight": "tgt", "softmax.weight": "tgt", "softmax.bias": "tgt"}

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float | None:
        """Multiplications and additions of all products of one forward pass over pairs of these lengths, eos counted.

        Padding is not counted. None with pooled words, whose number does not follow from the lengths, or with a guide.
        """
        if self.guidance or self.config.words == "pooled":
            return None
        source, target = np.asarray(src, dtype=float), np.asarray(tgt, dtype=float)
        per_source, per_target = n_weights(self.encoder), n_weights(self.decoder) + n_weights(self.softmax)
        total = len(source) * sum(map(n_weights, self.starts))
        if (attention := self.decoder.attention) is not None:
            d_memory = sum(column.d_out for column in self.encoder.columns)
            keys = n_weights(attention.keys)  # computed once per source token
            d_key = attention.keys.out_features if isinstance(attention.keys, Linear) else d_memory
            per_source, per_target = per_source + keys, per_target - keys
            total += (source * target).sum() * (d_key + d_memory)
        return float(2 * (total + source.sum() * per_source + target.sum() * per_target))

    def _encode(self, src: Tensor, pad: Tensor) -> tuple[Tensor, Tensor, list[Hidden]]:
        """src, pad [B, S] -> hidden [B, S, M] and its padding, of pooled words [B, W, M]; the last states"""
        pooled = self.config.words == "pooled"
        x, x_pad = self.words.pool(self.src.weight, src, pad) if pooled else (self.src(src), pad)
        hidden, finals = self.encoder(self.dropout(self.src_word_dropout(x)), x_pad)
        return hidden, x_pad, finals

    def _decode(self, tgt: Tensor, memory: Memory) -> tuple[Decoded, Tensor | None]:
        """The decoder's outputs, and the guide's part before the softmax."""
        assert isinstance(memory, RecurrentMemory)
        state = self.decoder.begin(memory.start, memory.hidden)
        y, beside = self.tgt_word_dropout(self.tgt(tgt)), None
        if self.guidance and memory.guided:
            at_input, beside = self.guidance(tgt, memory.guided)
            y = y + at_input
        return self.decoder(y, state, self._source(memory)), beside

    def _guided(self, readout: Tensor, beside: Tensor | None) -> Tensor:
        """[B, ·, R] -> [B, ·, R], combined with the guide's part"""
        return readout if beside is None or self.guidance is None else self.guidance.read_out(readout, beside)

    def _source(self, memory: Memory) -> Source | None:
        return self.decoder.attention.source(memory) if self.decoder.attention else None

    def _first_states(self, finals: list[Hidden]) -> tuple[Hidden, ...]:
        """The encoder's states at its end -> the decoder's first."""
        if self.config.start == "zero":
            return ()
        if self.config.start == "final":
            return tuple(finals)
        h = finals[-1].h
        zeros = [cell.zero(len(h), like=h) for cell in self.decoder.layers]
        return tuple(zero._replace(h=start(h).tanh()) for start, zero in zip(self.starts, zeros, strict=True))

    @torch.no_grad()
    def init_weights(self) -> None:
        """Initialise as `arch.init` says; embeddings of padding are 0."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -self.config.init_range, self.config.init_range)
        if self.config.init == "bahdanau":
            self._init_as_bahdanau()
        for embedding in (self.src, self.tgt):
            embedding.weight[embedding.padding_idx].zero_()

    def _init_as_bahdanau(self) -> None:
        """Initialise as in appendix B.1 of the paper."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 1:
                nn.init.zeros_(parameter)
            else:
                in_attention = name.startswith("decoder.attention")
                nn.init.normal_(parameter, std=BAHDANAU_ATTENTION_STD if in_attention else BAHDANAU_STD)
        for cell in self.modules():
            if isinstance(cell, Cell) and isinstance(cell.hidden, Linear):
                for gate in cell.hidden.weight.split(cell.d_out):
                    nn.init.orthogonal_(gate)
        if isinstance(self.decoder.attention, Attention) and self.config.attention == "additive":
            nn.init.zeros_(self.decoder.attention.v)


def n_weights(module: nn.Module) -> int:
    """Number of weights in a module's linear maps, each of which is used once per vector."""
    return sum(
        part.weight.numel() if isinstance(part, GroupedLinear) else part.in_features * part.out_features
        for part in module.modules()
        if isinstance(part, Linear | GroupedLinear)
    )
