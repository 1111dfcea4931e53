"""What every symbol does to an unfinished output, looked up instead of computed.

Shapes: V target symbols, V_src source symbols, C counters, L labels that closing symbols name, and one for those
that none names.
"""

from __future__ import annotations

__all__ = ["BRACKETS", "COUNTERS", "DEPTH", "FINISHED", "LAST", "OPEN", "OPENED", "START", "WORDS", "Tables"]

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from s2s_parsing.linear import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s_parsing.linear import Action

DEPTH, WORDS, BRACKETS, OPENED, LAST = range(5)
"""Counters: open brackets, words left, brackets that may still be opened, brackets opened since the last word, and
which kind of symbol came last."""
COUNTERS = 5

START, OPEN, PROJECT, WORD, CLOSE = range(5)
"""What may have come last."""
FINISHED = WORD
"""From here on, what came last finished a word or a bracket, which another can be put round."""

CODES = {Kind.OPEN: OPEN, Kind.PROJECT: PROJECT, Kind.WORD: WORD, Kind.CLOSE: CLOSE}
CHANGES = {
    Kind.OPEN: {DEPTH: 1, BRACKETS: -1, OPENED: 1},
    Kind.PROJECT: {DEPTH: 1, BRACKETS: -1, OPENED: 1},
    Kind.WORD: {WORDS: -1},
    Kind.CLOSE: {DEPTH: -1},
}


@dataclass(frozen=True)
class Tables:
    """All lookups, on one device."""

    word_marks: Tensor
    """[V_src], True for the symbols that every word has exactly one of"""
    keep: Tensor
    """[V, C], 0 where a symbol makes a counter forget what it was, else 1"""
    add: Tensor
    """[V, C], what it then adds"""
    label: Tensor
    """[V], which label it opens; 0: one that no closing symbol names"""
    allowed: Tensor
    """[(1 + L) * 16, V]: a row for every combination of what may be closed (0: nothing, else 1 + label) and `bits`"""
    bits: Tensor
    """[4], what in a row's number says that a word, an opening, a projection and the end are allowed"""

    @classmethod
    def of(cls, actions: Sequence[Action | None], word_marks: Sequence[bool], eos: int) -> Self:
        """The tables of a vocabulary, on the CPU."""
        if not any(action and action.kind is Kind.WORD for action in actions):
            raise ValueError("no symbol takes a word: nothing could ever be written")
        names = sorted({a.label for a in actions if a and a.kind is Kind.CLOSE and a.label is not None})
        numbers = {name: number for number, name in enumerate(names, 1)}
        opens = [a.label if a and a.kind in (Kind.OPEN, Kind.PROJECT) else None for a in actions]
        label = torch.tensor([numbers.get(name or "", 0) for name in opens])
        keep, add = _changes(actions)
        marks = torch.tensor(word_marks, dtype=torch.bool)
        closed_by = torch.tensor([[_closes(action, name) for action in actions] for name in [None, *names]])
        allowed = _allowed(actions, closed_by, label, eos)
        return cls(marks, keep, add, label, allowed, torch.tensor([1, 2, 4, 8]))

    @property
    def named(self) -> bool:
        """Whether any closing symbol names its label."""
        return len(self.allowed) > 2 * 16

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        return type(self)(*(getattr(self, field.name).to(device) for field in fields(self)))


def _changes(actions: Sequence[Action | None]) -> tuple[Tensor, Tensor]:
    """What the symbols do to the counters: keep, add [V, C]"""
    keep = torch.ones(len(actions), COUNTERS, dtype=torch.long)
    add = torch.zeros_like(keep)
    for symbol, action in enumerate(actions):
        if action is None:
            continue
        keep[symbol, LAST], add[symbol, LAST] = 0, CODES[action.kind]
        for counter, change in CHANGES[action.kind].items():
            add[symbol, counter] = change
        if action.kind is Kind.WORD:
            keep[symbol, OPENED] = 0
    return keep, add


def _closes(action: Action | None, label: str | None) -> bool:
    """Whether it closes a bracket of this label; a symbol that names none closes any."""
    return action is not None and action.kind is Kind.CLOSE and action.label in (None, label)


def _allowed(actions: Sequence[Action | None], closed_by: Tensor, label: Tensor, eos: int) -> Tensor:
    """The rows of `Tables.allowed`; a bracket that no symbol closes must not be opened."""
    kinds = torch.tensor([CODES[action.kind] if action else START for action in actions])
    closable = closed_by.any(1)[label]
    groups = [kinds == WORD, (kinds == OPEN) & closable, (kinds == PROJECT) & closable]
    groups.append(torch.arange(len(actions)) == eos)
    bits = torch.arange(16)[:, None] >> torch.arange(4) & 1  # [16, 4]
    others = (bits.bool()[:, :, None] & torch.stack(groups)).any(1)  # [16, V]
    closed_by = torch.cat([torch.zeros_like(closed_by[:1]), closed_by])  # [1 + L, V]
    return (closed_by[:, None] | others).flatten(0, 1)
