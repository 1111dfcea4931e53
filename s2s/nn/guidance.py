"""The output of a guide as vectors: encoder states at its places and embeddings of its kinds.

Shapes: B sentences, K hypotheses, T target length, S source tokens, W source words, P places, F kinds, M width of the
memory, D and R widths of the decoder's input and output, E = D + R.
"""

from __future__ import annotations

__all__ = ["Guidance", "Guided"]

from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s.backend.fused import FusedGuidance
from s2s.backend.linear import linear_function
from s2s.errors import ConfigError
from s2s.nn.dropout import Dropout
from s2s.nn.linear import Linear
from s2s.nn.words import SourceWords

if TYPE_CHECKING:
    from s2s.task import Vocab

N_WORD_PLACES = 2


class GuidedSource(NamedTuple):
    """What places refer to."""

    words: Tensor
    """[B, 1 + W, P, E]: the vector of each word at each place, preceded by the one for no word"""
    n_words: Tensor
    """[B], eos counted as one"""


class Guided(NamedTuple):
    """What depends on the source sentence, and the guide's state at the empty output."""

    source: GuidedSource
    start: Tensor
    """[B, 1, ·]"""


class Guidance(nn.Module):
    """Sums memory at the places, each through its own map, and embeddings of the kinds: once for the decoder's input
    and once, in a layer of its own, for its output.

    level=words: the first two places only, and no kinds. pooled: the memory is of words, as from `SourceWords.pool`.
    """

    def __init__(
        self,
        vocab: Vocab,
        level: Literal["words", "stack"],
        d_memory: int,
        widths: tuple[int, int],
        *,
        pooled: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        if vocab.guide is None:
            raise ConfigError(f"arch.guide={level}: this task has no guide; give arch.guide=none")
        self.guide, self.widths = vocab.guide, widths
        self.words, self.pooled = SourceWords(vocab), pooled
        self.n_places = N_WORD_PLACES if level == "words" else self.guide.n_places
        kinds = [] if level == "words" else list(self.guide.kinds)
        self._first_kinds = list(accumulate(kinds, initial=0))[:-1]
        """Row of the first value of each kind"""
        self._first_kinds_on: dict[torch.device, Tensor] = {}
        self.maps = Linear(d_memory, self.n_places * sum(widths))
        self.nothing = nn.Parameter(torch.zeros(self.n_places, sum(widths)))
        self.kinds = nn.Parameter(torch.zeros(sum(kinds), sum(widths))) if kinds else None
        self.out = Linear(widths[1], widths[1])
        self.dropout = Dropout(dropout)

    def fused(self) -> FusedGuidance | None:
        """The maps and vectors, for functions that compute the guide; None: its places are its own."""
        if not getattr(self.guide, "labels", ()):  # it may have the contract's methods alone
            return None
        nothing, kinds = self.nothing.detach(), None if self.kinds is None else self.kinds.detach()
        return FusedGuidance(self.guide, linear_function(self.maps), nothing, kinds, linear_function(self.out))

    def begin(self, memory: Tensor, src: Tensor, pad: Tensor) -> Guided:
        """memory [B, S, M], or of pooled words [B, W, M]; src, pad [B, S]"""
        memory = memory if self.pooled else self.words.states(memory, src, pad)
        words = self.maps(memory).unflatten(-1, self.nothing.shape)  # [B, W, P, E]
        nothing = self.nothing.to(words.dtype).expand(len(words), 1, -1, -1)
        n_words = self.words.begins_word(src, pad).sum(1)
        return Guided(GuidedSource(torch.cat([nothing, words], dim=1), n_words), self.guide.start(src, pad))

    def forward(self, tgt: Tensor, guided: Guided) -> tuple[Tensor, Tensor]:
        """tgt [B, T], with starting tokens -> [B, T, D], [B, T, R], those of position t from the tokens up to t"""
        state, states = guided.start, []
        for token in tgt.split(1, dim=1):
            state = self.guide.advance(state, token)
            states.append(state)
        return self._vectors(torch.cat(states, dim=1), guided.source)

    def step(self, token: Tensor, source: GuidedSource, state: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """token [B, K] -> [B, K, D], [B, K, R], and the guide's state after the token"""
        state = self.guide.advance(state, token)
        return self._vectors(state, source), state

    def read_out(self, hidden: Tensor, guided: Tensor) -> Tensor:
        """The decoder's output and the guide's vectors for it, [B, ·, R] -> [B, ·, R]"""
        return self.dropout((self.out(hidden) + guided).tanh())

    def _vectors(self, state: Tensor, source: GuidedSource) -> tuple[Tensor, Tensor]:
        places, kinds = self.guide.read(state)  # [B, K, P], [B, K, F]
        words, n_words = source
        row = places[..., : self.n_places] + 1
        row = row.masked_fill(row > n_words[:, None, None], 0)  # beyond the source's end there is no word
        row = row + torch.arange(len(words), device=row.device)[:, None, None] * words.size(1)
        row = row * self.n_places + torch.arange(self.n_places, device=row.device)
        summed = F.embedding_bag(row.flatten(0, 1), words.flatten(0, 2), mode="sum").unflatten(0, row.shape[:2])
        if self.kinds is not None:
            rows = kinds + self._firsts(kinds.device)
            kind_vectors = F.embedding_bag(rows.flatten(0, 1), self.kinds, mode="sum").unflatten(0, row.shape[:2])
            summed = summed + kind_vectors.to(summed.dtype)
        at_input, at_output = summed.split(self.widths, dim=-1)
        return at_input, at_output

    def _firsts(self, device: torch.device) -> Tensor:
        """`_first_kinds` on a device, copied at the first use."""
        if device not in self._first_kinds_on:
            self._first_kinds_on[device] = torch.tensor(self._first_kinds, device=device)
        return self._first_kinds_on[device]
