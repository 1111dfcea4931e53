"""The prefix and the phrases that the output of one sentence must contain, as automata.

After Hokamp and Liu (2017).
Shapes: B sentences, K hypotheses per sentence, V target tokens, W tokens of a prefix, P phrases, L tokens of a phrase.
"""

from __future__ import annotations

__all__ = ["PhraseConstraint", "PhraseState", "PrefixConstraint"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from s2s_constraints.tokens import NONE

Ids = Sequence[int]


def _padded(ids: Sequence[int], n: int) -> list[int]:
    return [*ids, *[NONE] * (n - len(ids))]


@dataclass(frozen=True)
class PrefixConstraint:
    """Outputs begin with a given prefix; the state is the rest of the prefix, padded with NONE."""

    width: int
    n_tokens: int
    prefixes: Sequence[Ids]
    """Of the sentences that `start` is called for"""

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, W]"""
        rows = [_padded(prefix, self.width) for prefix in self.prefixes]
        return torch.tensor(rows, device=src.device).unsqueeze(1)

    def allowed(self, state: Tensor) -> Tensor:
        """The next token of the prefix; after the prefix, any."""
        following = state[..., :1]
        return (following == NONE) | (torch.arange(self.n_tokens, device=state.device) == following)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The prefix without its first token."""
        return torch.cat([state[..., 1:], torch.full_like(state[..., :1], NONE)], dim=-1)


class PhraseState(NamedTuple):
    """The parts of a state of `PhraseConstraint`."""

    room: Tensor
    """[B, K], tokens until the limit"""
    newest: Tensor
    """[B, K, L], the last L tokens, NONE before the first"""
    ids: Tensor
    """[B, K, P, L], the phrases that the output lacks, padded with NONE; a phrase that it contains is all NONE"""

    @classmethod
    def unpack(cls, state: Tensor, longest: int) -> Self:
        """State [B, K, 1 + L + P * L]"""
        room, newest, ids = state.split([1, longest, state.size(-1) - 1 - longest], dim=-1)
        return cls(room[..., 0], newest, ids.unflatten(-1, (-1, longest)))

    def pack(self) -> Tensor:
        """[B, K, 1 + L + P * L]"""
        return torch.cat([self.room[..., None], self.newest, self.ids.flatten(2)], dim=-1)

    def progress(self) -> Tensor:
        """Length of the longest prefix of each phrase that is a suffix of the output: [B, K, P]"""
        longest = self.newest.size(-1)
        done = torch.zeros_like(self.ids[..., 0])
        for n in range(1, longest + 1):
            begun = (self.ids[..., :n] == self.newest[..., None, longest - n :]) & (self.ids[..., :n] != NONE)
            done = torch.where(begun.all(-1), n, done)
        return done

    def following(self, progress: Tensor) -> Tensor:
        """The next token of each phrase, [B, K, P]; NONE if the output contains it."""
        return self.ids.gather(-1, progress[..., None].clamp(max=self.ids.size(-1) - 1))[..., 0]

    def missing(self, progress: Tensor) -> Tensor:
        """Tokens that complete all phrases, one after the other: [B, K]"""
        return (self.ids != NONE).sum((-1, -2)) - progress.amax(-1)


@dataclass(frozen=True)
class PhraseConstraint:
    """Outputs contain given phrases; see `PhraseState`."""

    n_phrases: int
    longest: int
    n_tokens: int
    eos: int
    phrases: Sequence[Sequence[Ids]]
    """Of the sentences that `start` is called for"""

    @property
    def width(self) -> int:
        """1 + L + P * L"""
        return 1 + self.longest + self.n_phrases * self.longest

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, 1 + L + P * L]"""
        rows = []
        for sentence_phrases in self.phrases:
            different = dict.fromkeys(map(tuple, sentence_phrases))
            tokens = [token for phrase in different for token in _padded(phrase, self.longest)]
            rows.append(_padded(tokens, self.n_phrases * self.longest))
        ids = torch.tensor(rows, device=src.device).unsqueeze(1)
        newest = ids.new_full((len(rows), 1, self.longest), NONE)
        return torch.cat([limit[:, None, None], newest, ids], dim=-1)

    def allowed(self, state: Tensor) -> Tensor:
        """No eos while a phrase is missing; if the room is only just enough, only tokens that continue a phrase."""
        part = PhraseState.unpack(state, self.longest)
        progress = part.progress()
        missing = part.missing(progress)[..., None]
        allowed = (missing == 0) | (torch.arange(self.n_tokens, device=state.device) != self.eos)
        goes_on = part.following(progress).masked_fill(progress < progress.amax(-1, keepdim=True), NONE)
        urgent = torch.zeros(*state.shape[:2], self.n_tokens + 1, dtype=torch.bool, device=state.device)
        urgent.scatter_(2, goes_on.masked_fill(goes_on == NONE, self.n_tokens), True)
        return torch.where((missing > 0) & (part.room[..., None] <= missing), urgent[..., :-1], allowed)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]."""
        room, newest, ids = PhraseState.unpack(state, self.longest)
        part = PhraseState(room - 1, torch.cat([newest[..., 1:], token[..., None]], dim=-1), ids)
        complete = part.progress() == (ids != NONE).sum(-1)  # a phrase that is all NONE is complete, too
        return part._replace(ids=ids.masked_fill(complete[..., None], NONE)).pack()

    def required(self, state: Tensor) -> Tensor:
        """The next token of each missing phrase, [B, K, P]; NONE where none is missing."""
        part = PhraseState.unpack(state, self.longest)
        return part.following(part.progress())

    def missing(self, state: Tensor) -> Tensor:
        """Tokens that complete all phrases: [B, K]"""
        part = PhraseState.unpack(state, self.longest)
        return part.missing(part.progress())
