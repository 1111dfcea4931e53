"""What a user asks of the output of one sentence, as automata that search applies together with the others.

Shapes: B sentences, K hypotheses per sentence, V target symbols, W symbols of a prefix, P phrases, L symbols of one.
"""

from __future__ import annotations

__all__ = ["NO_CONSTRAINT", "LexicalConstraint", "Phrases", "Prefix", "add_lexical", "bind_lexical", "lexical_of"]

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import torch
from torch import Tensor

from s2s.decoding.constraints import NONE, All

if TYPE_CHECKING:
    from s2s.task import Constraint, Vocab


class LexicalConstraint(NamedTuple):
    """What an output is to be like, in target symbols."""

    prefix: Sequence[int] = ()
    """How it begins"""
    phrases: Sequence[Sequence[int]] = ()
    """What stands in it, each at least once, in any order; of two alike, one does for both"""


NO_CONSTRAINT = LexicalConstraint()


def add_lexical(constraint: Constraint | None, wishes: Sequence[LexicalConstraint], vocab: Vocab) -> Constraint | None:
    """A constraint that `bind_lexical` can bind to any of these; the given one, if none of them asks for anything."""
    others: list[Prefix | Phrases] = []
    if longest := max((len(wish.prefix) for wish in wishes), default=0):
        others.append(Prefix(longest, vocab.tgt))
    if most := max((len(wish.phrases) for wish in wishes), default=0):
        longest = max(len(phrase) for wish in wishes for phrase in wish.phrases)
        others.append(Phrases(most, longest, vocab.tgt, vocab.eos))
    if not others:
        return constraint
    if isinstance(constraint, All):
        return All(constraint.own, [*constraint.others, *others])
    return All(constraint, others)


def bind_lexical(constraint: Constraint | None, wishes: Sequence[LexicalConstraint]) -> Constraint | None:
    """The constraint that begins as these sentences ask, in this order; its states are as before."""
    if not isinstance(constraint, All):
        return constraint
    others = [replace(o, wishes=wishes) if isinstance(o, Prefix | Phrases) else o for o in constraint.others]
    return All(constraint.own, others)


def lexical_of(constraint: Constraint | None, n: int) -> Sequence[LexicalConstraint]:
    """What the constraint is `bind_lexical` to; of n sentences, nothing, where it is not."""
    others = constraint.others if isinstance(constraint, All) else ()
    return next((o.wishes for o in others if isinstance(o, Prefix | Phrases) and o.wishes), [NO_CONSTRAINT] * n)


def _padded(ids: Sequence[int], n: int) -> list[int]:
    return [*ids, *[NONE] * (n - len(ids))]


@dataclass(frozen=True)
class Prefix:
    """Outputs begin as is asked; the state is what is still to come, with NONE behind it."""

    width: int
    n_symbols: int
    wishes: Sequence[LexicalConstraint] = ()

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, W]"""
        rows = [_padded(wish.prefix, self.width) for wish in self.wishes]
        return torch.tensor(rows, device=src.device).unsqueeze(1)

    def allowed(self, state: Tensor) -> Tensor:
        """The next symbol of the prefix; behind it, anything."""
        following = state[..., :1]
        return (following == NONE) | (torch.arange(self.n_symbols, device=state.device) == following)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """One less to come."""
        return torch.cat([state[..., 1:], torch.full_like(state[..., :1], NONE)], dim=-1)


class Part(NamedTuple):
    """The states of `Phrases`, taken apart."""

    room: Tensor
    """[B, K], symbols that still fit"""
    newest: Tensor
    """[B, K, L], the last symbols, NONE where there is none"""
    ids: Tensor
    """[B, K, P, L], the phrases, with NONE behind each; once one stands in the output, it is NONE alone"""

    @classmethod
    def of(cls, state: Tensor, longest: int) -> Self:
        """State [B, K, 1 + L + P * L]"""
        room, newest, ids = state.split([1, longest, state.size(-1) - 1 - longest], dim=-1)
        return cls(room[..., 0], newest, ids.unflatten(-1, (-1, longest)))

    def joined(self) -> Tensor:
        """The state."""
        return torch.cat([self.room[..., None], self.newest, self.ids.flatten(2)], dim=-1)

    def progress(self) -> Tensor:
        """How much of each phrase the output ends with: [B, K, P]"""
        longest = self.newest.size(-1)
        done = torch.zeros_like(self.ids[..., 0])
        for n in range(1, longest + 1):
            begun = (self.ids[..., :n] == self.newest[..., None, longest - n :]) & (self.ids[..., :n] != NONE)
            done = torch.where(begun.all(-1), n, done)
        return done

    def following(self, progress: Tensor) -> Tensor:
        """The next symbol of each phrase, [B, K, P]; NONE: it stands there."""
        return self.ids.gather(-1, progress[..., None].clamp(max=self.ids.size(-1) - 1))[..., 0]

    def missing(self, progress: Tensor) -> Tensor:
        """Symbols that would do for all phrases, one behind the other: [B, K]"""
        return (self.ids != NONE).sum((-1, -2)) - progress.amax(-1)


@dataclass(frozen=True)
class Phrases:
    """Outputs hold what is asked; the state is the room that is left, the last symbols, and what is missing."""

    n_phrases: int
    longest: int
    n_symbols: int
    eos: int
    wishes: Sequence[LexicalConstraint] = ()

    @property
    def width(self) -> int:
        """1 + L + P * L"""
        return 1 + self.longest + self.n_phrases * self.longest

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        """[B, 1, 1 + L + P * L]"""
        rows = []
        for wish in self.wishes:
            different = dict.fromkeys(map(tuple, wish.phrases))
            symbols = [symbol for phrase in different for symbol in _padded(phrase, self.longest)]
            rows.append(_padded(symbols, self.n_phrases * self.longest))
        ids = torch.tensor(rows, device=src.device).unsqueeze(1)
        newest = ids.new_full((len(rows), 1, self.longest), NONE)
        return torch.cat([limit[:, None, None], newest, ids], dim=-1)

    def allowed(self, state: Tensor) -> Tensor:
        """No end while something is missing; and where it just fits, the one phrase or another that has begun."""
        part = Part.of(state, self.longest)
        progress = part.progress()
        missing = part.missing(progress)[..., None]
        allowed = (missing == 0) | (torch.arange(self.n_symbols, device=state.device) != self.eos)
        goes_on = part.following(progress).masked_fill(progress < progress.amax(-1, keepdim=True), NONE)
        urgent = torch.zeros(*state.shape[:2], self.n_symbols + 1, dtype=torch.bool, device=state.device)
        urgent.scatter_(2, goes_on.masked_fill(goes_on == NONE, self.n_symbols), True)
        return torch.where((missing > 0) & (part.room[..., None] <= missing), urgent[..., :-1], allowed)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        """The states after `token` [B, K]."""
        room, newest, ids = Part.of(state, self.longest)
        part = Part(room - 1, torch.cat([newest[..., 1:], token[..., None]], dim=-1), ids)
        there = part.progress() == (ids != NONE).sum(-1)  # a phrase of NONE alone is there, too
        return part._replace(ids=ids.masked_fill(there[..., None], NONE)).joined()

    def wanted(self, state: Tensor) -> Tensor:
        """Symbols that bring an output nearer, [B, K, P], NONE where there is none."""
        part = Part.of(state, self.longest)
        return part.following(part.progress())

    def missing(self, state: Tensor) -> Tensor:
        """Symbols that an output still lacks: [B, K]"""
        part = Part.of(state, self.longest)
        return part.missing(part.progress())
