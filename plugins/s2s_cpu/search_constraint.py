"""The constraint of a search whose steps are one call: an automaton in C, or tokens that were looked up before.

Shapes: B sentences, K hypotheses, V tokens, G counters, W numbers of a state, L labels.
"""

from __future__ import annotations

__all__ = ["SearchConstraint", "search_constraint", "with_room"]

import ctypes
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from s2s_cpu.structs import AutomatonStruct, TokenListsStruct

if TYPE_CHECKING:
    from s2s.decoding import Beams, BeamSearch, StackAutomaton


@runtime_checkable
class HasAutomaton(Protocol):
    """See `s2s.Constraint`."""

    def automaton(self) -> StackAutomaton | None:
        """What `allowed` and `advance` compute, if tables can say it."""


class SearchConstraint(NamedTuple):
    """If it has neither tokens nor an automaton, all is allowed."""

    allowed: Tensor | None = None
    """[B, K, V], for a single step"""
    automaton: StackAutomaton | None = None
    """For any number of steps"""
    states: Tensor | None = None
    """[B, beam, W], the automaton's, of which the first B * K * W numbers count; steps write into it"""

    def pointers(self) -> tuple[int | None, int | None, object]:
        """Of the allowed tokens and of the automaton's structure, and what must be kept as long as they are used."""
        if self.automaton is None or self.states is None:
            return self.allowed.data_ptr() if self.allowed is not None else None, None, None
        keep, add, bounds, label, allowed, begin, tokens = (table.data_ptr() for table in self.automaton)
        lists, n_counters = TokenListsStruct(begin, tokens), self.automaton.keep.size(1)
        tables, states = (keep, add, bounds, label, allowed), self.states
        structure = AutomatonStruct(n_counters, states.size(2), *tables, lists, states.data_ptr())
        return None, ctypes.addressof(structure), structure


def search_constraint(search: BeamSearch, batch: Beams) -> SearchConstraint:
    """The constraint of the next steps: its tables, or the tokens that it allows next."""
    constraint, states = search.constraint, batch.constraint_state
    if constraint is None or states is None:
        return SearchConstraint()
    if isinstance(constraint, HasAutomaton) and (automaton := constraint.automaton()):
        _check(automaton, states.contiguous(), search.request.vocab.tgt)
        return SearchConstraint(automaton=automaton, states=with_room(states, search.config.beam))
    shape = (len(batch.sentences), batch.n_hypotheses, -1)
    return SearchConstraint(allowed=constraint.allowed(states).expand(shape).contiguous())


def with_room(x: Tensor, beam: int) -> Tensor:
    """A copy of x [B, K, ...] as the first numbers of [B, beam, ...]"""
    room = x.new_empty(len(x), beam, *x.shape[2:])
    room.view(-1)[: x.numel()] = x.flatten()
    return room


def _check(automaton: StackAutomaton, states: Tensor, n_tokens: int) -> None:
    """Raise ValueError where C would read beside tables or states. What the tables contain is not checked."""
    n_counters, n_labels = automaton.keep.size(1), len(automaton.allowed)
    of_tokens = (n_tokens, n_counters)
    shapes = {"keep": of_tokens, "add": of_tokens, "bounds": (2, n_counters), "label": (n_tokens,)}
    shapes["allowed"] = (n_labels, 2**n_counters)
    for name, table in (*automaton._asdict().items(), ("states", states)):
        if table.shape != shapes.get(name, table.shape) or table.dtype != torch.long or not table.is_contiguous():
            found = f"{table.dtype} {tuple(table.shape)}"
            raise ValueError(f"{name} of an automaton must be contiguous int64 {shapes.get(name, '')}, got {found}")
    n_slots, height = states.size(2) - n_counters, int(automaton.bounds[1, -1])
    if n_slots and n_slots <= height:
        raise ValueError(f"an automaton's stack of up to {height} labels needs room for {height + 1}, got {n_slots}")
