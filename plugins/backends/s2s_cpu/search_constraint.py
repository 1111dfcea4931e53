"""The constraint of a search whose steps are one call: an automaton in C, or allowed tokens that were looked up before.

Shapes: B sentences, K hypotheses, V tokens, G counters, W values of a state, L labels.
"""

from __future__ import annotations

__all__ = ["OutputRules", "SearchConstraint", "automaton_of", "output_rules", "search_constraint"]

import ctypes
import functools
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from s2s.backend import pad_to_beam
from s2s.decoding import option_rules
from s2s_cpu.automaton import Automaton

if TYPE_CHECKING:
    from s2s import Constraint, Vocab
    from s2s.decoding import Beams, StackAutomaton


@runtime_checkable
class HasAutomaton(Protocol):
    """See `s2s.Constraint`."""

    def automaton(self) -> StackAutomaton | None:
        """`allowed` and `advance` as tables, if they can be written so."""


class SearchConstraint(NamedTuple):
    """With neither tokens nor an automaton, everything is allowed."""

    allowed: Tensor | None = None
    """[B, K, V], for a single step"""
    automaton: Automaton | None = None
    """For any number of steps"""
    states: Tensor | None = None
    """[B, beam, W], those of the automaton, in the first B * K * W elements; steps write to it"""

    def pointers(self) -> tuple[int | None, int | None, object]:
        """Pointers to the allowed tokens and the automaton's structure, and what must outlive them."""
        if self.automaton is None or self.states is None:
            return self.allowed.data_ptr() if self.allowed is not None else None, None, None
        structure = self.automaton.struct_of(self.states.size(2), self.states.data_ptr())
        return None, ctypes.addressof(structure), structure


def search_constraint(batch: Beams, beam: int) -> SearchConstraint:
    """The constraint of the next steps: its tables, or the tokens that it allows next."""
    constraint, states, n_tokens = batch.run.constraint, batch.constraint_state, batch.run.request.vocab.tgt
    if states is None:
        return SearchConstraint()
    if automaton := automaton_of(constraint.automaton, n_tokens):
        _check_states(automaton, states.contiguous())
        states = pad_to_beam(states, beam).clone(memory_format=torch.contiguous_format)
        return SearchConstraint(automaton=automaton, states=states)
    allowed = constraint.allowed(states, n_tokens)
    assert allowed is not None
    return SearchConstraint(allowed=allowed.expand(len(batch.sentences), batch.n_hypotheses, -1).contiguous())


class OutputRules(NamedTuple):
    """What every output must be, for a stream."""

    automaton: Automaton | None
    """Whose tables say with what any source begins"""
    min_len: int
    no_repeat_ngram_size: int
    """0: any may be repeated"""


def output_rules(constraint: Constraint | None, vocab: Vocab) -> OutputRules | None:
    """A constraint for a stream; None: it is more than tables and what options of searches set."""
    rules = option_rules(constraint, vocab)
    automaton = automaton_of(rules.constraint, vocab.tgt) if rules else None
    if rules is None or (rules.constraint and not (automaton and automaton.first)):
        return None
    return OutputRules(automaton, rules.min_len, rules.no_repeat_ngram_size)


def automaton_of(constraint: Constraint | None, n_tokens: int) -> Automaton | None:
    """A constraint for functions in C, if it has such a form; n_tokens: V. Raises ValueError for impossible tables."""
    tables = constraint.automaton() if isinstance(constraint, HasAutomaton) else None
    return _automaton(tables, n_tokens) if tables else None


@functools.lru_cache(maxsize=8)
def _automaton(tables: StackAutomaton, n_tokens: int) -> Automaton:
    """Made once for each automaton, since it reads all contents."""
    _check_tables(tables, n_tokens)
    numbers = {name: [] if x is None else x.flatten().tolist() for name, x in tables._asdict().items()}
    return Automaton(numbers)


def _check_states(automaton: Automaton, states: Tensor) -> None:
    """Raise ValueError where C would read outside of states."""
    n_counters, height = automaton.n_counters, automaton.arrays["bounds"][-1]
    if states.dtype != torch.long or not states.is_contiguous() or states.size(2) < n_counters:
        raise ValueError(f"states of an automaton must be int64 of {n_counters} counters, got {_signature(states)}")
    n_slots = states.size(2) - n_counters
    if n_slots and n_slots <= height:
        raise ValueError(f"an automaton's stack of up to {height} labels needs room for {height + 1}, got {n_slots}")


def _check_tables(automaton: StackAutomaton, n_tokens: int) -> None:
    """Raise ValueError where C would read outside of tables, or of the stack of a state that `first` describes."""
    n_counters, (n_labels, n_lists) = automaton.keep.size(1), (len(automaton.allowed), len(automaton.begin) - 1)
    token_shape, n_listed = (n_tokens, n_counters), len(automaton.tokens)
    shapes = {"keep": token_shape, "add": token_shape, "bounds": (2, n_counters), "label": (n_tokens,)}
    shapes |= {"allowed": (n_labels, 2**n_counters), "first": (n_counters, 5)}
    for name, table in automaton._asdict().items():
        if table is None:
            continue
        if table.shape != shapes.get(name, table.shape) or table.dtype != torch.long or not table.is_contiguous():
            expected = f"contiguous int64 {shapes.get(name, '')}"
            raise ValueError(f"{name} of an automaton must be {expected}, got {_signature(table)}")
    below = {"label": n_labels, "allowed": n_lists, "tokens": n_tokens, "begin": n_listed + 1}
    for name, limit in below.items():
        table = getattr(automaton, name)
        if table.numel() and (int(table.min()) < 0 or int(table.max()) >= limit):
            raise ValueError(f"{name} of an automaton must be from 0 to {limit - 1}")
    if automaton.begin.diff().lt(0).any() or int(automaton.bounds[0, -1]) < 0:
        raise ValueError("an automaton's lists must begin one after the other, and its stack have no height below 0")
    first = automaton.first
    if first is not None and (first[:, 3].lt(1).any() or first[-1, :3].any()):
        raise ValueError("first of an automaton must divide by 1 or more, and begin with an empty stack")


def _signature(x: Tensor) -> str:
    return f"{x.dtype} {tuple(x.shape)}"
