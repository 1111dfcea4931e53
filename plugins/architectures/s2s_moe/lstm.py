"""The translation model of Shazeer et al. (2017), appendix E: LSTM layers with projection, attention, two mixtures.

Shapes: B sentences, K hypotheses, S source length, T target length, D = d_model, C = d_cell, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["MoELSTM"]

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from s2s import Memory, Seq2Seq, State
from s2s.nn import Dropout, Linear
from s2s.tensors import host_copy
from s2s_moe.layer import MixtureLayer, auxiliary_names, n_gate_weights, take_auxiliary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Auxiliary, Side, Vocab
    from s2s_moe import MoELSTMConfig


class Source(NamedTuple):
    """The source as read by attention."""

    keys: Tensor
    """[B, S, D], tanh of the projected memory"""
    values: Tensor
    """[B, S, D]"""
    seen: Tensor
    """[B, S], True where there is a token"""


@dataclass
class LSTMState(State):
    """`sentence` is a `Source`; `hypothesis` has the last context and each layer's output and cells, [B, K, ·]."""

    supports_join: ClassVar[bool] = True


class MoELSTM(Seq2Seq):
    """Encoder: LSTM layers, of which the first is bidirectional, with a mixture before the last.

    Decoder: an LSTM layer in a loop with attention, a mixture, and the other LSTM layers, which also read the context.
    All have residual connections.
    """

    def __init__(self, config: MoELSTMConfig, vocab: Vocab) -> None:
        super().__init__()
        warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")  # torch's own serve
        self.config, self.pad, self.n_tgt = config, vocab.pad, vocab.tgt
        d, cells = config.d_model, config.d_cell
        self.src, self.tgt = nn.Embedding(vocab.src, d), nn.Embedding(vocab.tgt, d)
        self.out = Linear(d, vocab.tgt)
        options = {"batch_first": True}
        both = nn.LSTM(d, cells, proj_size=d // 2, bidirectional=True, **options)
        forward = [nn.LSTM(d, cells, proj_size=d, **options) for _ in range(config.n_encoder_layers - 1)]
        self.encoder = nn.ModuleList([both, *forward])
        layers = [nn.LSTM(2 * d, cells, proj_size=d, **options) for _ in range(config.n_decoder_layers)]
        self.decoder = nn.ModuleList(layers)
        self.attend = Attention(d)
        self.encoder_mixture, self.decoder_mixture = (mixture(config) for _ in range(2))
        self.dropout = Dropout(config.dropout)
        if config.mixture:
            self.auxiliary = auxiliary_names(config)
        self.init_weights()

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        """src, pad [B, S] -> hidden [B, S, D]"""
        x, lengths = self.dropout(self.src(src)), (~host_copy(pad)).sum(-1).clamp(min=1)
        *layers, last = self.encoder
        for layer in layers:
            x = x + self.dropout(over_sentences(layer, x, lengths))
        x = self._mix(self.encoder_mixture, x, pad)
        return Memory(x + self.dropout(over_sentences(last, x, lengths)), pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, D]"""
        return self._decode(tgt, memory)[0]

    def project(self, hidden: Tensor) -> Tensor:
        """[..., D] -> logits [..., V]"""
        return self.out(hidden)

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor:
        """src, pad [B, S], tgt [B, T] -> [B, T, S]"""
        return self._decode(tgt, self.encode(src, pad))[1].float()

    def start(self, memory: Memory) -> LSTMState:
        """One hypothesis for each sentence: no context, no output, empty cells."""
        n, zeros = len(memory.pad), memory.hidden.new_zeros
        d, cells = self.config.d_model, self.config.d_cell
        layers = [(zeros(n, 1, d), zeros(n, 1, cells)) for _ in self.decoder]
        return LSTMState(sentence=self.attend.read(memory), hypothesis=(zeros(n, 1, d), layers))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]"""
        context, before = state.hypothesis
        x, shape = self.dropout(self.tgt(token)), token.shape
        h, first = one_step(self.decoder[0], torch.cat([x, context], -1), before[0])
        context, _ = self.attend(h, state.sentence)
        x = self._mix(self.decoder_mixture, x + self.dropout(h), token == self.pad)
        after = [first]
        for layer, layer_state in zip(list(self.decoder)[1:], before[1:], strict=True):
            h, cells = one_step(layer, torch.cat([x, context], -1), layer_state)
            x = x + self.dropout(h)
            after.append(cells)
        return self.project(x).view(*shape, -1), replace(state, hypothesis=(context, after))

    def vocab_rows(self) -> dict[str, Side]:
        """Both embeddings and the softmax."""
        return {"src.weight": "src", "tgt.weight": "tgt", "out.weight": "tgt", "out.bias": "tgt"}

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float:
        """Two operations for each weight of a matrix that multiplies a token, plus attention."""
        config, d = self.config, self.config.d_model
        mixture_operations = (
            config.n_active * 2 * d * config.d_expert + n_gate_weights(config, d) if config.mixture else 0
        )
        matrices = lambda layers: sum(p.numel() for p in layers.parameters() if p.dim() == 2)  # noqa: E731
        per_src = matrices(self.encoder) + d * d + mixture_operations
        per_tgt = matrices(self.decoder) + d * d + mixture_operations + d * self.n_tgt
        attended = sum(2 * d * s * t for s, t in zip(src, tgt, strict=True))
        return 2.0 * (sum(src) * per_src + sum(tgt) * per_tgt + attended)

    def record_auxiliary(self) -> None:
        """Record the use of experts; see `s2s.HasAuxiliary`."""
        for mixture in self._mixtures():
            mixture.uses = []

    def take_auxiliary(self) -> Auxiliary:
        """The balance losses; see `s2s.HasAuxiliary`."""
        return take_auxiliary(self._mixtures(), self.out.weight.device)

    def _decode(self, tgt: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """tgt [B, T] -> hidden [B, T, D], attention [B, T, S]; only the first layer runs in a loop with attention."""
        source, x = self.attend.read(memory), self.dropout(self.tgt(tgt))
        context, (first_state, *_) = self.start(memory).hypothesis
        hidden, contexts, weights = [], [], []
        for token in x.split(1, dim=1):
            h, first_state = one_step(self.decoder[0], torch.cat([token, context], -1), first_state)
            context, looked = self.attend(h, source)
            hidden.append(h)
            contexts.append(context)
            weights.append(looked)
        x = self._mix(self.decoder_mixture, x + self.dropout(torch.cat(hidden, 1)), tgt == self.pad)
        for layer in list(self.decoder)[1:]:
            x = x + self.dropout(layer(torch.cat([x, torch.cat(contexts, 1)], -1))[0])
        return x, torch.cat(weights, 1)

    def _mix(self, mixture: nn.Module, x: Tensor, pad: Tensor) -> Tensor:
        """Apply the mixture, whose output passes through a sigmoid (appendix E)."""
        if not isinstance(mixture, MixtureLayer):
            return x
        mixture.begin(pad)
        return x + self.dropout(mixture(x).sigmoid())

    def _mixtures(self) -> list[MixtureLayer]:
        return [m for m in (self.encoder_mixture, self.decoder_mixture) if isinstance(m, MixtureLayer)]

    @torch.no_grad()
    def init_weights(self) -> None:
        """Uniform, except for the gates, which stay at 0."""
        for name, p in self.named_parameters():
            if ".gate." not in name:
                nn.init.uniform_(p, -self.config.init, self.config.init)


class Attention(nn.Module):
    """score(x, y) = sum over d of v_d tanh(x U)_d tanh(y W)_d, which is a matrix product (appendix G)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.key, self.query = Linear(d_model, d_model, bias=False), Linear(d_model, d_model, bias=False)
        self.weight = nn.Parameter(torch.zeros(d_model))

    def read(self, memory: Memory) -> Source:
        """The source of each sentence, computed once."""
        return Source(self.key(memory.hidden).tanh(), memory.hidden, ~memory.pad)

    def forward(self, h: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        """h [B, K, D] -> contexts [B, K, D], weights [B, K, S]; uniform if the source has no token."""
        scores = (self.query(h).tanh() * self.weight) @ source.keys.mT
        hidden = ~source.seen[:, None]
        weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)
        return weights @ source.values, weights


def mixture(config: MoELSTMConfig) -> nn.Module:
    """A mixture of experts with one hidden layer, or the identity for the baseline."""
    if not config.mixture:
        return nn.Identity()
    d, inner = config.d_model, config.d_expert
    experts = (
        nn.Sequential(Linear(d, inner, bias=False), nn.ReLU(), Linear(inner, d, bias=False))
        for _ in range(config.n_experts)
    )
    return MixtureLayer(config, d, experts)


def over_sentences(layer: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
    """A layer over whole sentences [B, S, D] -> [B, S, D]; the backward direction starts at each sentence's end.

    lengths: [B], on the host.
    """
    lengths, order = lengths.sort(descending=True)  # torch sorts, too, but then reads the order from the device
    packed = pack_padded_sequence(x.index_select(0, order.to(x.device)), lengths, batch_first=True)
    hidden = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=x.size(1))[0]
    return hidden.index_select(0, order.argsort().to(x.device))


def one_step(layer: nn.Module, x: Tensor, before: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """x [B, K, ·], output and cells before [B, K, ·] -> output [B, K, D], and both after"""
    shape = x.shape[:2]
    h, c = (t.flatten(0, 1)[None] for t in before)
    _, (h, c) = layer(x.flatten(0, 1)[:, None], (h.contiguous(), c.contiguous()))
    h, c = h[0].unflatten(0, shape), c[0].unflatten(0, shape)
    return h, (h, c)
