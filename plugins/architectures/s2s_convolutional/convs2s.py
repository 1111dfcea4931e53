"""ConvS2S (Gehring et al., 2017): sections refer to that paper.

Shapes: B sentences, K hypotheses, S source length, T target length, D = d_model, W width of a layer, V vocabulary.
"""

from __future__ import annotations

__all__ = ["ConvS2S"]

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from s2s import AttentionMap, ConfigError, DataError, Memory, Seq2Seq, State
from s2s.nn import Dropout
from s2s_convolutional.convs2s_layers import (
    HALF,
    ConvLayer,
    ConvMemory,
    ConvState,
    DecoderLayer,
    Source,
    Window,
    source,
)
from s2s_convolutional.weight_norm import NormedLinear
from s2s_convolutional.windows import empty_window, slide, windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from s2s import Side, Vocab
    from s2s_convolutional import ConvS2SConfig

    Widen = Callable[[int, Tensor], Tensor]
    """A layer's number and inputs -> all inputs of its convolution"""

EMBEDDING_STD = 0.1


class ConvS2S(Seq2Seq):
    """Encoder and decoder of gated convolutions."""

    def __init__(self, config: ConvS2SConfig, vocab: Vocab) -> None:
        super().__init__()
        self.config, self.vocab, self.max_len = config, vocab, config.max_positions
        d, keep = config.d_model, 1 - config.dropout
        self.src = nn.Embedding(vocab.src, d, padding_idx=vocab.src_pad)
        self.tgt = nn.Embedding(vocab.tgt, d, padding_idx=vocab.pad)
        self.src_positions, self.tgt_positions = (nn.Embedding(config.max_positions, d) for _ in range(2))
        self.dropout = Dropout(config.dropout)
        self.encoder = stack(ConvLayer(*sizes, keep) for sizes in layer_sizes(config.encoder_layers))
        self.decoder = stack(DecoderLayer(*sizes, d, keep) for sizes in layer_sizes(config.decoder_layers))
        self.encoder_in = NormedLinear(d, self.encoder[0].d_in, keep=keep)
        self.encoder_out = NormedLinear(self.encoder[-1].d_out, d)
        self.decoder_in = NormedLinear(d, self.decoder[0].d_in, keep=keep)
        self.decoder_out = NormedLinear(self.decoder[-1].d_out, d)
        self.softmax = NormedLinear(d, vocab.tgt, keep=keep)
        self.init_weights()

    def encode(self, src: Tensor, pad: Tensor) -> ConvMemory:
        """src, pad [B, S] -> z [B, S, D]; padding is 0 for every convolution."""
        self._check(src)
        positions = self.src_positions(torch.arange(src.size(1), device=src.device))
        embedded = self.dropout(self.src(src) + positions).masked_fill(pad[..., None], 0.0)
        x = self.encoder_in(embedded)
        for layer in self.encoder:
            x = layer(x.masked_fill(pad[..., None], 0.0), lambda x, of=layer: windows(x, of.kernel, causal=False))
        z = self._scale_gradient(self.encoder_out(x))
        return ConvMemory(z, pad, (z + embedded) * HALF)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, D]"""
        return self._decode(tgt, memory)[0]

    def project(self, hidden: Tensor) -> Tensor:
        """[..., D] -> logits [..., V]"""
        return self.softmax(hidden)

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor:
        """src, pad [B, S], tgt [B, T] -> [B, T, S]: of one decoder layer, or the mean of all."""
        if layer is not None and not 1 <= layer <= len(self.decoder):
            raise ConfigError(f"attention_layer={layer}: the decoder has {len(self.decoder)}, numbered from 1")
        weights = self._decode(tgt, self.encode(src, pad))[1]
        return (weights[layer - 1] if layer else torch.stack(weights).mean(0)).float()

    def attention_maps(self, src: Tensor, pad: Tensor, tgt: Tensor) -> list[AttentionMap]:
        """Each decoder layer's weights, as one head: [B, 1, T, S]."""
        weights = self._decode(tgt, self.encode(src, pad))[1]
        return [AttentionMap("cross", n, "tgt", "src", w[:, None].float()) for n, w in enumerate(weights, 1)]

    def start(self, memory: Memory) -> ConvState:
        """Zeros as the previous inputs of every convolution."""
        n = len(memory.pad)
        inputs = tuple(empty_window(n, layer.kernel, layer.d_in, memory.hidden) for layer in self.decoder)
        position = torch.zeros(n, 1, dtype=torch.long, device=memory.pad.device)
        return ConvState(sentence=source(memory), hypothesis=Window(position, inputs))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]"""
        window, inputs = state.hypothesis, []

        def widen(index: int, x: Tensor) -> Tensor:
            seen, rest = slide(window.inputs[index], x)
            inputs.append(rest)
            return seen

        embedded = self.tgt(token) + self.tgt_positions(window.position.clamp(max=self.config.max_positions - 1))
        hidden, _ = self._layers(self.dropout(embedded), state.sentence, widen)
        return self.project(hidden), replace(state, hypothesis=Window(window.position + 1, tuple(inputs)))

    def vocab_rows(self) -> dict[str, Side]:
        """Both embeddings, and the softmax's parts."""
        softmax_rows: dict[str, Side] = {f"softmax.{name}": "tgt" for name in ("v", "g", "bias")}
        return {"src.weight": "src", "tgt.weight": "tgt", **softmax_rows}

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float:
        """Operations of all products of a forward pass over pairs of these lengths, with eos and without padding."""
        lengths, n_tgt = (np.asarray(side, dtype=float) for side in (src, tgt))
        encoder, decoder = (
            sum(m.v.numel() for part in parts for m in cast("nn.Module", part).modules() if isinstance(m, NormedLinear))
            for parts in (
                (self.encoder, self.encoder_in, self.encoder_out),
                (self.decoder, self.decoder_in, self.decoder_out, self.softmax),
            )
        )
        attended = 2 * len(self.decoder) * self.config.d_model * (lengths * n_tgt).sum()
        return float(2 * (encoder * lengths.sum() + decoder * n_tgt.sum() + attended))

    def _decode(self, tgt: Tensor, memory: Memory) -> tuple[Tensor, list[Tensor]]:
        """tgt [B, T] -> inputs of the softmax [B, T, D], and each layer's weights [B, T, S]"""
        self._check(tgt)
        positions = self.tgt_positions(torch.arange(tgt.size(1), device=tgt.device))
        embedded = self.dropout(self.tgt(tgt) + positions)
        widen: Widen = lambda index, x: windows(x, self.decoder[index].kernel, causal=True)  # noqa: E731
        return self._layers(embedded, source(memory), widen)

    def _layers(self, embedded: Tensor, source: Source, widen: Widen) -> tuple[Tensor, list[Tensor]]:
        """[B, ·, D] -> [B, ·, D] and each layer's weights"""
        x, weights = self.decoder_in(embedded), []
        for index, layer in enumerate(self.decoder):
            x, seen = layer(x, embedded, source, lambda x, of=index: widen(of, x))
            weights.append(seen)
        return self.dropout(self.decoder_out(x)), weights

    def _check(self, ids: Tensor) -> None:
        if ids.size(1) > self.config.max_positions:
            raise DataError(
                f"a sentence has {ids.size(1)} tokens, but this model has {self.config.max_positions} positions; "
                "split it, or train with a larger arch.max_positions"
            )

    def _scale_gradient(self, z: Tensor) -> Tensor:
        """The encoder's gradient is a sum over the decoder's layers: divide it by their number (section 3.4)."""
        share = 1 / len(self.decoder)
        return z * share + z.detach() * (1 - share) if self.training and torch.is_grad_enabled() else z

    @torch.no_grad()
    def init_weights(self) -> None:
        """Section 3.5: embeddings N(0, 0.1), linear maps that preserve the variance, biases 0."""
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=EMBEDDING_STD)
            elif isinstance(module, NormedLinear):
                module.init_weights()
        for table in (self.src, self.tgt):
            table.weight[table.padding_idx].zero_()


def layer_sizes(layers: list[list[int]]) -> list[tuple[int, int, int]]:
    """Input width, output width and kernel of each layer; the first layer's input has its own width."""
    flat = [(width, kernel) for n, width, kernel in layers for _ in range(n)]
    inputs = [flat[0][0], *(width for width, _ in flat)]
    return [(d_in, width, kernel) for d_in, (width, kernel) in zip(inputs, flat, strict=False)]


Item = TypeVar("Item", bound=nn.Module)


def stack(items: Iterable[Item]) -> list[Item]:
    """A ModuleList, for which torch has no type with the type of its elements."""
    return cast("list[Item]", nn.ModuleList(items))
