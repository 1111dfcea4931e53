"""A model whose state must be reordered along with its hypotheses."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from s2s.model import Memory, Seq2Seq, State


class Recurrent(Seq2Seq):
    """A small recurrent model with attention, whose state is cached and in need of reordering."""

    def __init__(self, n_symbols: int, width: int = 16) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(n_symbols, width)
        self.encoder, self.decoder = nn.GRUCell(width, width), nn.GRUCell(2 * width, width)
        self.output = nn.Linear(width, n_symbols)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.8)

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        h, hidden = torch.zeros(src.size(0), self.decoder.hidden_size), []
        for x, at_pad in zip(self.embedding(src).unbind(1), pad.unbind(1), strict=True):
            h = torch.where(at_pad[:, None], h, self.encoder(x, h))
            hidden.append(h)
        return Memory(hidden=torch.stack(hidden, dim=1), pad=pad)

    def start(self, memory: Memory) -> State:
        return State(sentence=memory, hypothesis={"h": memory.hidden[:, None, -1]})

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        memory, h = state.sentence, state.hypothesis["h"]  # h [B, K, D]
        scores = (h @ memory.hidden.mT).masked_fill(memory.pad[:, None], -torch.inf)  # [B, K, S]
        x = torch.cat([self.embedding(token), scores.softmax(-1) @ memory.hidden], dim=-1)
        h = self.decoder(x.flatten(0, 1), h.flatten(0, 1)).unflatten(0, token.shape)
        return self.output(h), replace(state, hypothesis={"h": h})

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        state, logits = self.start(memory), []
        for token in tgt.split(1, dim=1):
            output, state = self.step(token, state)
            logits.append(output)
        return torch.cat(logits, dim=1)
