"""Lexical constraints: the prefix and the phrases that the output of one sentence must contain.

They are automata that search applies together with the other constraints, after Hokamp and Liu (2017).

Shapes: B sentences, K hypotheses per sentence, V target tokens, W tokens of a prefix, P phrases, L tokens of a phrase.
"""

from __future__ import annotations

__all__ = [
    "NO_CONSTRAINT",
    "NO_SIZES",
    "LexicalConstraint",
    "LexicalSizes",
    "PhraseConstraint",
    "PrefixConstraint",
    "add_lexical",
    "bind_lexical",
    "widen_state",
]

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.decoding.constraints import NONE, ConstraintSet

if TYPE_CHECKING:
    from s2s.task import Constraint, Vocab


class LexicalConstraint(NamedTuple):
    """What one output must contain, in target tokens."""

    prefix: Sequence[int] = ()
    """How it begins"""
    phrases: Sequence[Sequence[int]] = ()
    """What it contains, each at least once, in any order; equal phrases count once"""


NO_CONSTRAINT = LexicalConstraint()


class LexicalSizes(NamedTuple):
    """How large the states must be; 0: no output has such a constraint."""

    prefix: int = 0
    """Tokens of the longest prefix"""
    n_phrases: int = 0
    phrase: int = 0
    """Tokens of the longest phrase"""

    @classmethod
    def of(cls, lexical: Sequence[LexicalConstraint]) -> Self:
        """The sizes that these need."""
        prefix = max((len(one.prefix) for one in lexical), default=0)
        n_phrases = max((len(one.phrases) for one in lexical), default=0)
        return cls(prefix, n_phrases, max((len(phrase) for one in lexical for phrase in one.phrases), default=0))

    def union(self, other: LexicalSizes) -> Self:
        """The larger of each."""
        return type(self)(*map(max, self, other))

    @property
    def width(self) -> int:
        """The last dimension of the states."""
        return self.prefix + (1 + self.phrase + self.n_phrases * self.phrase if self.n_phrases else 0)


NO_SIZES = LexicalSizes()


def add_lexical(constraint: Constraint | None, sizes: LexicalSizes, vocab: Vocab) -> Constraint | None:
    """The constraint and, behind it, those that `bind_lexical` binds to sentences; the same if sizes are 0."""
    lexical: list[PrefixConstraint | PhraseConstraint] = []
    if sizes.prefix:
        lexical.append(PrefixConstraint(sizes.prefix, vocab.tgt))
    if sizes.n_phrases:
        lexical.append(PhraseConstraint(sizes.n_phrases, sizes.phrase, vocab.tgt, vocab.eos))
    if not lexical:
        return constraint
    if isinstance(constraint, ConstraintSet):
        return ConstraintSet(constraint.own, [*constraint.others, *lexical])
    return ConstraintSet(constraint, lexical)


def bind_lexical(constraint: Constraint | None, lexical: Sequence[LexicalConstraint]) -> Constraint | None:
    """The constraint that starts with the lexical constraints of these sentences, in this order."""
    if not isinstance(constraint, ConstraintSet):
        return constraint
    others = [
        replace(other, lexical=lexical) if isinstance(other, PrefixConstraint | PhraseConstraint) else other
        for other in constraint.others
    ]
    return ConstraintSet(constraint.own, others)


def widen_state(
    state: Tensor | None, old: LexicalSizes, new: LexicalSizes, shape: tuple[int, int], device: torch.device
) -> Tensor:
    """States [B, K, ·] of constraints with `old` sizes as those of `new`, larger ones; shape is [B, K].

    What is added demands nothing: NONE in prefix and phrases.
    """
    if state is None:
        state = torch.zeros(*shape, 0, dtype=torch.long, device=device)
    others, prefix, phrases = state.split([state.size(-1) - old.width, old.prefix, old.width - old.prefix], dim=-1)
    prefix = F.pad(prefix, (0, new.prefix - old.prefix), value=NONE)
    if not new.n_phrases:
        return torch.cat([others, prefix], dim=-1)
    if not old.n_phrases:
        return torch.cat([others, F.pad(prefix, (0, new.width - new.prefix), value=NONE)], dim=-1)
    room, newest, ids = PhraseState.unpack(phrases, old.phrase)
    longer, more = new.phrase - old.phrase, new.n_phrases - old.n_phrases
    newest, ids = F.pad(newest, (longer, 0), value=NONE), F.pad(ids, (0, longer, 0, more), value=NONE)
    return torch.cat([others, prefix, PhraseState(room, newest, ids).pack()], dim=-1)


def _padded(ids: Sequence[int], n: int) -> list[int]:
    return [*ids, *[NONE] * (n - len(ids))]


@dataclass(frozen=True)
class PrefixConstraint:
    """Outputs begin with a given prefix; the state is the rest of the prefix, padded with NONE."""

    width: int
    n_tokens: int
    lexical: Sequence[LexicalConstraint] = ()

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, W]"""
        rows = [_padded(one.prefix, self.width) for one in self.lexical]
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
    """[B, K, P, L], the phrases that the output lacks, padded with NONE; one that it contains is all NONE"""

    @classmethod
    def unpack(cls, state: Tensor, longest: int) -> Self:
        """State [B, K, 1 + L + P * L]"""
        room, newest, ids = state.split([1, longest, state.size(-1) - 1 - longest], dim=-1)
        return cls(room[..., 0], newest, ids.unflatten(-1, (-1, longest)))

    def pack(self) -> Tensor:
        """[B, K, 1 + L + P * L]"""
        return torch.cat([self.room[..., None], self.newest, self.ids.flatten(2)], dim=-1)

    def progress(self) -> Tensor:
        """Length of the longest beginning of each phrase with which the output ends: [B, K, P]"""
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
    lexical: Sequence[LexicalConstraint] = ()

    @property
    def width(self) -> int:
        """1 + L + P * L"""
        return 1 + self.longest + self.n_phrases * self.longest

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, 1 + L + P * L]"""
        rows = []
        for one in self.lexical:
            different = dict.fromkeys(map(tuple, one.phrases))
            tokens = [token for phrase in different for token in _padded(phrase, self.longest)]
            rows.append(_padded(tokens, self.n_phrases * self.longest))
        ids = torch.tensor(rows, device=src.device).unsqueeze(1)
        newest = ids.new_full((len(rows), 1, self.longest), NONE)
        return torch.cat([limit[:, None, None], newest, ids], dim=-1)

    def allowed(self, state: Tensor) -> Tensor:
        """No eos while a phrase is missing; where the room is only just enough, a phrase that has begun goes on."""
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
        complete = part.progress() == (ids != NONE).sum(-1)  # a phrase of NONE alone is complete, too
        return part._replace(ids=ids.masked_fill(complete[..., None], NONE)).pack()

    def wanted(self, state: Tensor) -> Tensor:
        """The next token of each missing phrase, [B, K, P]; NONE where none is missing."""
        part = PhraseState.unpack(state, self.longest)
        return part.following(part.progress())

    def missing(self, state: Tensor) -> Tensor:
        """Tokens that complete all phrases: [B, K]"""
        part = PhraseState.unpack(state, self.longest)
        return part.missing(part.progress())
