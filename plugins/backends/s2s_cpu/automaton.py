"""The automaton of a constraint for searches in C: its tables as numbers, in memory of their own. No torch at import.

Shapes: V tokens, G counters, L labels, W values of a state.
"""

from __future__ import annotations

__all__ = ["Automaton"]

import ctypes
from array import array
from typing import TYPE_CHECKING

from s2s_cpu.structs import AutomatonStruct, TokenListsStruct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TABLES = ("keep", "add", "bounds", "label", "allowed", "begin", "tokens")
"""That C reads"""


class Automaton:
    """An `s2s.decoding.StackAutomaton`, from its tables as lists, such as `array_of` makes and a file keeps."""

    def __init__(self, numbers: Mapping[str, Sequence[int]]) -> None:
        self.numbers = numbers
        self.arrays = {name: array("q", numbers[name]) for name in TABLES}  # own what the structure points to
        self.n_counters = len(numbers["bounds"]) // 2
        has_labels = len(numbers["allowed"]) >> self.n_counters > 1
        self.width = self.n_counters + (numbers["bounds"][-1] + 1 if has_labels else 0)
        """W of `start`"""
        self.struct = self.struct_of(self.width, None)
        """Without states"""
        self.counted = frozenset(numbers["counted"])
        first = numbers["first"]
        self.first = [first[i : i + 5] for i in range(0, len(first), 5)]

    @property
    def address(self) -> int:
        """Of the structure without states."""
        return ctypes.addressof(self.struct)

    def struct_of(self, width: int, states: int | None) -> AutomatonStruct:
        """The structure with states [., W] at this address; it does not own the tables."""
        *tables, begin, tokens = (self.arrays[name].buffer_info()[0] for name in TABLES)
        return AutomatonStruct(self.n_counters, width, *tables, TokenListsStruct(begin, tokens), states)

    def start(self, ids: Sequence[int], limit: int) -> list[int] | None:
        """The state of an empty output of at most `limit` tokens; None: the tables do not say."""
        if not self.first:
            return None
        n = sum(token in self.counted for token in ids)
        counters = [(of_n * n + of_limit * limit + plus) // by for of_n, of_limit, plus, by, _ in self.first]
        if any(counter < least for counter, (*_, least) in zip(counters, self.first, strict=True)):
            return None
        return counters + [0] * (self.width - self.n_counters)
