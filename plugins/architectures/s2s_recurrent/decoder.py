"""The decoder: recurrent layers with attention.

Layers that need the context or the readout of the previous token run one token at a time; all others run over whole
sequences. Shapes: B sentences, K hypotheses (1 in training), T target length, E embedding width, R readout width.
"""

from __future__ import annotations

__all__ = ["Decoded", "Decoder", "DecoderState"]

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from s2s.nn import Dropout, Linear
from s2s_recurrent.attention import Attention, Source
from s2s_recurrent.cells import Hidden, make_cell
from s2s_recurrent.encoder import connect, connected_width, modules

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s_recurrent import RNNConfig

    Run = Callable[[int, Tensor], tuple[Tensor, Tensor | None]]
    """A layer's number and input -> its output, and the input's part of its gates"""


class DecoderState(NamedTuple):
    """The state of each hypothesis: tensors [B, K, ·]."""

    layers: tuple[Hidden, ...]
    fed: Tensor | None
    """The last readout, which input feeding reads"""


class Decoded(NamedTuple):
    """The decoder's outputs for one token or for all."""

    readout: Tensor
    """[B, ·, R]"""
    weights: Tensor | None
    """[B, ·, S]"""


class Decoder(nn.Module):
    """All layers, attention, and the readout."""

    def __init__(self, config: RNNConfig, d_embedding: int, d_memory: int) -> None:
        super().__init__()
        self.config, attends = config, config.attention != "none"
        self.first, self.top = (attends and config.attention_from == name for name in ("first", "top"))
        d_cell = config.d_projection or config.d_model
        d, layers = d_embedding, []
        for index in range(config.n_decoder_layers):
            reads_context = self.first and (index == 0 or config.context_to == "all")
            fed = self._d_readout(d_memory) if config.input_feeding and index == 0 else 0
            layers.append(make_cell(d + reads_context * d_memory + fed, config))
            d = connected_width(config, index, d, [layers[-1]], "decoder")
        self.layers, self.d_top = modules(layers), d
        self.attention = Attention(config, d_cell if self.first else d, d_memory) if attends else None
        self.d_readout = self._d_readout(d_memory)
        self.dropout = Dropout(config.dropout)
        if config.readout == "tanh":
            self.readout = Linear(d + d_memory, self.d_readout)
        elif config.readout == "maxout":
            self.readout = Linear(d_cell + d_embedding + d_memory, 2 * self.d_readout)

    def _d_readout(self, d_memory: int) -> int:
        config = self.config
        if config.readout != "none":
            return config.d_readout or config.d_model
        d_top = config.d_projection or config.d_model
        if config.fast_forward:
            d_top += (4 if config.cell == "lstm" else 3) * config.d_model
        return d_top + d_memory * self.top

    def begin(self, layers: tuple[Hidden, ...], like: Tensor) -> DecoderState:
        """The first state, from each layer's state [B, ·], or from zeros if there is none; like [B, ...]"""
        n = len(like)
        states = layers or tuple(layer.zero(n, like=like) for layer in self.layers)
        wide = tuple(state.map(lambda t: t[:, None]) for state in states)
        fed = like.new_zeros(n, 1, self.d_readout) if self.config.input_feeding else None
        return DecoderState(wide, fed)

    def step(self, y: Tensor, state: DecoderState, source: Source | None) -> tuple[Decoded, DecoderState]:
        """Embeddings [B, K, E] of the newest tokens -> their readouts, and the state after them."""
        y, after = self.dropout(y), []
        context, weights = self._context(state.layers[0].h, source) if self.first else (None, None)

        def run(index: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
            part = self.layers[index].input(x)
            after.append(self.layers[index].step(part, state.layers[index]))
            return after[-1].h, part

        x = self._stack(y, context if state.fed is None else state.fed, context, run)
        if self.top:
            context, weights = self._context(x, source)
        readout = self._read(x, context, y, state.layers[0].h)
        fed = None if state.fed is None else readout
        return Decoded(readout, weights), DecoderState(tuple(after), fed)

    def forward(self, y: Tensor, state: DecoderState, source: Source | None) -> Decoded:
        """Embeddings [B, T, E] of all tokens -> their readouts [B, T, R]"""
        if self.config.input_feeding:
            return self._one_by_one(y, state, source)
        y, weights, context, queries = self.dropout(y), None, None, y
        done: list[tuple[Tensor, Tensor | None]] = []
        if self.first:
            context, weights, queries, first = self._first_layer(y, state.layers[0], source)
            done.append(first)

        def run(index: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
            if index < len(done):
                return done[index]
            h, parts, _ = self.layers[index](x, state.layers[index].map(lambda t: t.squeeze(1)))
            return h, parts

        x = self._stack(y, context, context, run)
        if self.top:
            context, weights = self._context(x, source)
        return Decoded(self._read(x, context, y, queries), weights)

    def _one_by_one(self, y: Tensor, state: DecoderState, source: Source | None) -> Decoded:
        steps = []
        for newest in y.split(1, dim=1):
            decoded, state = self.step(newest, state, source)
            steps.append(decoded)
        weights = [step.weights for step in steps if step.weights is not None]
        return Decoded(torch.cat([step.readout for step in steps], dim=1), torch.cat(weights, dim=1))

    def _first_layer(
        self, y: Tensor, state: Hidden, source: Source | None
    ) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Contexts, weights, the states before each token, and outputs and parts of the first layer, [B, T, ·]"""
        cell, steps = self.layers[0], []
        for newest in y.split(1, dim=1):
            context, weights = self._context(state.h, source)
            part = cell.input(torch.cat([newest, context], dim=-1))
            before, state = state.h, cell.step(part, state)
            steps.append((context, weights, before, state.h, part))
        contexts, weights, before, after, parts = (torch.cat(those, dim=1) for those in zip(*steps, strict=True))
        return contexts, weights, before, (after, parts)

    def _stack(
        self,
        x: Tensor,
        beside: Tensor | None,
        context: Tensor | None,
        run: Run,
    ) -> Tensor:
        """The output of all layers for x [B, ·, E], which the first layer reads together with `beside`; the others also
        read the context if the configuration says so."""
        for index in range(len(self.layers)):
            extra = beside if index == 0 else context if self.config.context_to == "all" else None
            h, parts = run(index, x if extra is None else torch.cat([x, extra], dim=-1))
            x = connect(self.config, index, x, self.dropout(h), parts)
        return x

    def _context(self, query: Tensor, source: Source | None) -> tuple[Tensor, Tensor]:
        assert self.attention is not None
        assert source is not None
        return self.attention(query, source)

    def _read(self, x: Tensor, context: Tensor | None, y: Tensor, before: Tensor) -> Tensor:
        """The softmax's input, [B, ·, R]: x of the top layer, y of the last token, the state `before` it."""
        if self.config.readout == "maxout":
            assert context is not None
            return self.readout(torch.cat([before, y, context], dim=-1)).unflatten(-1, (-1, 2)).amax(-1)
        if not self.top:
            return x
        assert context is not None
        both = torch.cat([x, context], dim=-1)
        return self.readout(both).tanh() if self.config.readout == "tanh" else both
