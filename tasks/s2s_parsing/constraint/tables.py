"""The tables of the automaton: the effect of every token, and what each state allows.

Shapes: V target tokens, V_src source tokens, G counters, L labels of closing tokens, and one (0) for all others.
"""

from __future__ import annotations

__all__ = ["BRACKETS", "COUNTERS", "DEEPER", "DEPTH", "MORE", "WORDS", "Tables"]

import itertools
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from s2s.decoding import StackAutomaton
from s2s_parsing.linear import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s_parsing.constraint.bounds import Bounds
    from s2s_parsing.linear import Action

WORDS, BRACKETS, DEEPER, MORE, FINISHED, FILLED, DEPTH = range(7)
"""Counters, for which it only matters whether they are above 0: words left; brackets that may still be opened in total,
by depth, and before the next word; whether a projection may follow; whether the innermost bracket is non-empty; open
brackets."""
COUNTERS = 7

OPENED = {DEPTH: 1, DEEPER: -1, BRACKETS: -1, MORE: -1}
ADDED = {
    Kind.OPEN: OPENED,
    Kind.PROJECT: {**OPENED, FILLED: 1},
    Kind.WORD: {WORDS: -1, FINISHED: 1, FILLED: 1},
    Kind.CLOSE: {DEPTH: -1, DEEPER: 1, FINISHED: 1, FILLED: 1},
}
"""What each kind of token adds to the counters; FINISHED and FILLED are first reset."""


@dataclass(frozen=True)
class Tables:
    """All lookups, on one device."""

    word_begins: Tensor
    """[V_src], True for the token that every word has exactly once"""
    keep: Tensor
    """[V, G], 0 where a token resets a counter, else 1"""
    add: Tensor
    """[V, G], what it adds"""
    label: Tensor
    """[V, 1], index of the label that it opens"""
    least: Tensor
    """[G], lower bounds of the counters"""
    most: Tensor
    """[G], upper bounds"""
    powers: Tensor
    """[G], powers of 2 that encode which counters are above 0"""
    rows: Tensor
    """[2 ** G], the row of `allowed` by that code"""
    allowed: Tensor
    """[L, 32, V], allowed tokens by innermost label and row"""
    first: Tensor
    """[G, 5], see `StackAutomaton`: how counters begin, for a sentence that has words and a limit of at least as many
    tokens"""

    @classmethod
    def of(cls, actions: Sequence[Action | None], word_begins: Sequence[bool], bounds: Bounds, eos: int) -> Self:
        """The tables of a vocabulary, on the CPU."""
        if not any(action and action.kind is Kind.WORD for action in actions):
            raise ValueError("no token shifts a word: no tree can be written")
        names = sorted({a.label for a in actions if a and a.kind is Kind.CLOSE and a.label is not None})
        numbers = {name: number for number, name in enumerate(names, 1)}
        label = torch.tensor([numbers.get(action.label, 0) if action and action.label else 0 for action in actions])
        most = torch.full((COUNTERS,), torch.iinfo(torch.long).max)
        most[DEPTH] = bounds.depth
        return cls(
            word_begins=torch.tensor(word_begins, dtype=torch.bool),
            keep=torch.tensor([_kept(action) for action in actions]),
            add=torch.tensor([_added(action, bounds) for action in actions]),
            label=label[:, None],
            least=torch.zeros_like(most),
            most=most,
            powers=2 ** torch.arange(COUNTERS),
            rows=torch.tensor(list(_rows())),
            allowed=_allowed(actions, [None, *names], label, eos),
            first=torch.tensor([_first(bounds).get(counter, (0, 0, 0, 1, 0)) for counter in range(COUNTERS)]),
        )

    @property
    def named(self) -> bool:
        """Whether closing tokens have labels."""
        return len(self.allowed) > 1

    def automaton(self) -> StackAutomaton:
        """What `allowed` and `advance` of the constraint compute, for a search in C; equal lists stand once."""
        used, column = self.rows.unique(return_inverse=True)
        lists, number = self.allowed[:, used].flatten(0, 1).unique(dim=0, return_inverse=True)
        which, token = lists.nonzero(as_tuple=True)
        return StackAutomaton(
            keep=self.keep,
            add=self.add,
            bounds=torch.stack([self.least, self.most]),
            label=self.label[:, 0].contiguous(),
            allowed=number.unflatten(0, (-1, len(used)))[:, column].contiguous(),
            begin=torch.searchsorted(which, torch.arange(len(lists) + 1)),
            tokens=token,
            counted=self.word_begins.nonzero()[:, 0],
            first=self.first,
        )

    def to(self, device: torch.device) -> Self:
        """The tables on another device."""
        return type(self)(*(getattr(self, field.name).to(device) for field in fields(self)))


def _first(bounds: Bounds) -> dict[int, tuple[int, int, int, int, int]]:
    """A row of `Tables.first` for each counter that does not begin with 0."""
    return {
        WORDS: (1, 0, 0, 1, 1),
        BRACKETS: (-1, 1, 0, 2, 0),
        DEEPER: (0, 0, bounds.depth, 1, 0),
        MORE: (0, 0, bounds.opened, 1, 0),
    }


def _kept(action: Action | None) -> list[int]:
    reset = {FINISHED, FILLED} | ({MORE} if action and action.kind is Kind.WORD else set())
    return [int(action is None or counter not in reset) for counter in range(COUNTERS)]


def _added(action: Action | None, bounds: Bounds) -> list[int]:
    if action is None:
        return [0] * COUNTERS
    added = ADDED[action.kind] | ({MORE: bounds.opened} if action.kind is Kind.WORD else {})
    return [added.get(counter, 0) for counter in range(COUNTERS)]


def _rows() -> Iterator[int]:
    """Five bits for every code: whether a word, an opening, a projection, a closing and the end are allowed."""
    for flags in itertools.product((False, True), repeat=COUNTERS):
        depth, filled, finished, more, deeper, brackets, words = flags  # the first counter changes fastest
        room = brackets and deeper and more
        may = words, room and words, room and finished, depth and filled, not depth and not words
        yield sum(2**bit for bit, allowed in enumerate(may) if allowed)


def _allowed(actions: Sequence[Action | None], labels: Sequence[str | None], label: Tensor, eos: int) -> Tensor:
    """`Tables.allowed`; a bracket that no token closes is never opened."""
    kind_masks = {kind: torch.tensor([a is not None and a.kind is kind for a in actions]) for kind in Kind}
    closes = torch.tensor([[_closes(action, name) for action in actions] for name in labels])  # [L, V]
    closable = closes.any(1)[label]
    end = torch.arange(len(actions)) == eos
    alike = [kind_masks[Kind.WORD], kind_masks[Kind.OPEN] & closable, kind_masks[Kind.PROJECT] & closable]
    groups = torch.stack([group.expand_as(closes) for group in (*alike, closes, end)], dim=1)  # [L, 5, V]
    bits = (torch.arange(32)[:, None] >> torch.arange(5) & 1).bool()  # [32, 5]
    return (groups[:, None] & bits[:, :, None]).any(2)


def _closes(action: Action | None, label: str | None) -> bool:
    """Whether it closes a bracket of this label; a token without a label closes any."""
    return action is not None and action.kind is Kind.CLOSE and action.label in (None, label)
