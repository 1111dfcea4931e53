"""A question, memories, and hops of attention; outputs after the first token also depend on the answer so far.

Shapes: B sources, S source tokens, U units (such as sentences; eos counts as one), T target length, K hypotheses,
D width, V tokens, N hops.
"""

from __future__ import annotations

__all__ = ["MemoryNetwork"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s import AttentionMap, ConfigError, Memory, Seq2Seq, State
from s2s.nn import Linear, SourceWords

if TYPE_CHECKING:
    from s2s import Side, Vocab
    from s2s_memory_networks import MemoryNetworkConfig


@dataclass
class Memories(Memory):
    """`hidden` [B, U, D]: the last hop's output vectors. `pad` [B, U]: units that are not remembered."""

    remembered: Tensor
    """[B, U], the remembered units; also False beyond the end, when states are joined"""

    inputs: Tensor
    """[B, U, N, D], the keys of each hop (m)"""
    outputs: Tensor
    """[B, U, N, D], the values of each hop (c)"""
    question: Tensor
    """[B, D]"""


@dataclass
class MemoryNetworkState(State):
    """`hypothesis` is the sum of the embeddings of its tokens: [B, K, D]"""

    supports_join: ClassVar[bool] = True
    supports_capture: ClassVar[bool] = True


class Units(NamedTuple):
    """The assignment of the source's tokens to units."""

    word_index: Tensor
    """[B, S], the number of each token's unit; -1 for padding"""
    distance: Tensor
    """[B, U], distance from the question, which is the last unit before eos: 1 is the unit before it; 0 or less: not a
    memory"""


class MemoryNetwork(Seq2Seq):
    """u' = u + sum_i softmax(u m_i) c_i, N times; then softmax(W u).

    With adjacent tying, table n of `tables` [V, ·, D] is the paper's A of hop n + 1 and C of hop n; with layerwise
    tying there are three: for the question, and A and C of all hops.
    """

    def __init__(self, config: MemoryNetworkConfig, vocab: Vocab) -> None:
        super().__init__()
        if not vocab.joint:
            raise ConfigError("arch=memory_network: answers are words of the source; give a task of one vocabulary")
        self.config, self.vocab, self.words = config, vocab, SourceWords(vocab)
        d, adjacent = config.d_model, config.tying == "adjacent"
        n_tables = config.n_hops + 1 if adjacent else 3
        self.tables = nn.Parameter(torch.empty(vocab.src, n_tables, d))
        n_times = (n_tables if adjacent else 2) if config.temporal else 0
        self.times = nn.Parameter(torch.empty(n_times, config.capacity + 1, d)) if n_times else None
        self.between = None if adjacent else Linear(d, d, bias=False)
        self.out = None if adjacent else Linear(d, vocab.tgt, bias=False)
        self.init_weights()

    def encode(self, src: Tensor, pad: Tensor) -> Memories:
        """src, pad [B, S]"""
        units = self._units(src, pad)
        sums = self._sums(src, units)  # [tables, B, U, D]
        question = (units.distance == 0).to(sums.dtype)  # [B, U]
        query = (sums[0] * question[..., None]).sum(1)
        remembered = (units.distance > 0) & (units.distance <= self.config.capacity)
        nothing = ~remembered.any(1, keepdim=True) & (units.distance == -1)  # only a question: eos is the memory
        inputs, outputs = self._of_hops(sums, units.distance)
        remembered = remembered | nothing
        return Memories(outputs[:, :, -1], ~remembered, remembered, inputs, outputs, query)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, D]"""
        return self._hops(self._embed_answer(tgt).cumsum(1), memory)[0]

    def project(self, hidden: Tensor) -> Tensor:
        """[..., D] -> logits [..., V]"""
        return self.out(hidden) if self.out else F.linear(hidden, self.tables[:, -1])

    def start(self, memory: Memory) -> MemoryNetworkState:
        """The state before any answer."""
        return MemoryNetworkState(sentence=memory, hypothesis=torch.zeros_like(memory.hidden[:, :1]))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]"""
        answered = state.hypothesis + self._embed_answer(token)
        return self.project(self._hops(answered, state.sentence)[0]), replace(state, hypothesis=answered)

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor | None:
        """src, pad [B, S], tgt [B, T] -> [B, T, S]: a hop's weights, by default the last hop's, at the first token of
        each unit. None with arch.match=linear."""
        if layer is not None and not 1 <= layer <= self.config.n_hops:
            raise ConfigError(f"attention_layer={layer}: this model has hops 1 to {self.config.n_hops}")
        maps = self.attention_maps(src, pad, tgt)
        return maps[(layer or len(maps)) - 1].weights[:, 0] if maps else None

    def attention_maps(self, src: Tensor, pad: Tensor, tgt: Tensor) -> list[AttentionMap]:
        """A map for each hop; none with arch.match=linear, whose weights are not a distribution."""
        if self.config.match == "linear":
            return []
        weights = self._hops(self._embed_answer(tgt).cumsum(1), self.encode(src, pad))[1]
        spread = [self.words.spread(hop_weights.float(), src, pad) for hop_weights in weights]
        return [AttentionMap("hop", n, "tgt", "src", hop_weights[:, None]) for n, hop_weights in enumerate(spread, 1)]

    def vocab_rows(self) -> dict[str, Side]:
        """The tables, and the softmax if it is not one of them."""
        rows: dict[str, Side] = {"tables": "src"}
        if self.out:
            rows["out.weight"] = "tgt"
        return rows

    def _units(self, src: Tensor, pad: Tensor) -> Units:
        """The units of a source: a unit is what `SourceWords` treats as a word."""
        first = self.words.begins_word(src, pad)
        n_units = first.sum(1, keepdim=True)
        word_index = (first.cumsum(1) - 1).masked_fill(pad, -1)
        number = torch.arange(self.words.longest(src, pad), device=src.device)
        return Units(word_index, n_units - 2 - number)

    def _sums(self, src: Tensor, units: Units) -> Tensor:
        """Weighted sum of the token embeddings of every unit, for every table: [tables, B, U, D]"""
        number = torch.arange(units.distance.size(1), device=src.device)
        belongs = units.word_index[:, None] == number[:, None]  # [B, U, S]
        x = self.tables[src].movedim(2, 0)  # [tables, B, S, D]
        if self.config.encoding == "position":
            x = x * position_weights(belongs, x.size(-1)).to(x.dtype)
        return belongs.to(x.dtype) @ x

    def _of_hops(self, sums: Tensor, distance: Tensor) -> tuple[Tensor, ...]:
        """[tables, B, U, D] -> the inputs and outputs of all hops, each [B, U, N, D]"""
        layerwise = self.config.tying == "layerwise"
        sums = sums[1:] if layerwise else sums
        if self.times is not None:
            sums = sums + self.times[:, self._times(distance)]
        if layerwise:
            return tuple(one[:, :, None].expand(-1, -1, self.config.n_hops, -1) for one in sums)
        return sums[:-1].movedim(0, 2), sums[1:].movedim(0, 2)

    def _times(self, distance: Tensor) -> Tensor:
        """Rows of `times` [B, U]; in training, empty positions make some distances longer."""
        if self.training and self.config.noise:
            empty = (torch.rand_like(distance, dtype=torch.float32) < self.config.noise) & (distance > 0)
            distance = distance + empty.flip(1).cumsum(1).flip(1)
        return distance.clamp(0, self.config.capacity)

    def _embed_answer(self, tgt: Tensor) -> Tensor:
        """The tokens of an output, embedded like words of the question; bos as 0: [..., D]"""
        return F.embedding(tgt, self.tables[:, 0]).masked_fill((tgt == self.vocab.bos)[..., None], 0.0)

    def _hops(self, answered: Tensor, memory: Memory) -> tuple[Tensor, list[Tensor]]:
        """answered [B, ·, D] -> the query after all hops [B, ·, D], and each hop's weights [B, ·, U]"""
        assert isinstance(memory, Memories)
        u, weights = memory.question[:, None] + answered, []
        for inputs, outputs in zip(memory.inputs.unbind(2), memory.outputs.unbind(2), strict=True):
            match = u @ inputs.mT
            if self.config.match == "linear":
                p = match * memory.remembered[:, None]
            else:
                p = match.masked_fill(~memory.remembered[:, None], torch.finfo(match.dtype).min).softmax(-1)
            weights.append(p)
            u = (self.between(u) if self.between else u) + p @ outputs
        return u, weights

    @torch.no_grad()
    def init_weights(self) -> None:
        """Normal, all with the same standard deviation (section 4.2); rows of padding are 0."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=self.config.init_std)
        self.tables[self.vocab.pad].zero_()


def position_weights(belongs: Tensor, d_model: int) -> Tensor:
    """l_kj = (1 - j / J) - (k / d) (1 - 2 j / J), word j of J, component k of d, from 1 (section 4.1).

    belongs [B, U, S], True where a token belongs to a unit -> [B, S, D]
    """
    n_words = (belongs.sum(-1, keepdim=True) * belongs).sum(1).clamp(min=1)  # [B, S]
    j = (belongs.cumsum(-1) * belongs).sum(1)
    share = (j / n_words)[..., None]
    k = torch.arange(1, d_model + 1, device=belongs.device) / d_model
    return (1 - share) - k * (1 - 2 * share)
