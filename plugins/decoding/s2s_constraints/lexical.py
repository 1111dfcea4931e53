"""Lexical constraints: the prefix and the phrases that the output of one sentence must contain.

They hold for the text of an output, whatever tokens spell it, after Hokamp and Liu (2017).
Shapes: B sentences, K hypotheses per sentence.
"""

from __future__ import annotations

__all__ = ["LexicalBatchConstraint", "LexicalConstraint"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from s2s.decoding import BatchConstraint, ConstraintSet
from s2s.tensors import host_copy
from s2s_constraints.allocation import PhraseAllocation
from s2s_constraints.alternatives import Alternatives
from s2s_constraints.automaton import StateTable, TextAutomaton, text_states
from s2s_constraints.phrases import Phrase
from s2s_constraints.spelling import Spelling
from s2s_constraints.text_state import FREE, TextState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Constraint
    from s2s.decoding import SentenceConstraint


@dataclass(frozen=True)
class LexicalConstraint:
    """What one output must contain."""

    spelling: Spelling
    prefixes: tuple[str, ...] = ()
    """The symbols with which it must begin, in each way to spell them; none: any"""
    phrases: tuple[Phrase | Alternatives, ...] = ()
    """What it must contain, each at least once, in any order; equal phrases count once"""

    def for_batch(self, base: BatchConstraint) -> LexicalBatchConstraint:
        """The constraint of a batch without sentences, besides `base`, the one on every output."""
        return LexicalBatchConstraint(base, StateTable())

    def start(self) -> TextState:
        """The state of the empty output."""
        return TextState(self.spelling, self.prefixes, tuple(dict.fromkeys(self.phrases)))


class LexicalBatchConstraint(BatchConstraint):
    """The prefixes and phrases of a batch, whose states come after those of the constraint on every output."""

    def __init__(
        self,
        base: BatchConstraint,
        table: StateTable,
        sentences: Sequence[LexicalConstraint | None] = (),
        *,
        has_phrases: bool = False,
    ) -> None:
        """sentences: what `start` starts. has_phrases: whether other sentences of the batch have phrases."""
        starts = [sentence.start() if sentence else FREE for sentence in sentences]
        texts = TextAutomaton(table, base.vocab.tgt, base.vocab.eos, starts)
        super().__init__(_automaton(base.automaton, texts), base.vocab, normalize=base.normalize)
        self.base, self.table = base, table
        if has_phrases or any(sentence.phrases for sentence in sentences if sentence):
            self.allocation = PhraseAllocation(texts, base.normalize)

    def for_sentences(self, constraints: Sequence[SentenceConstraint | None]) -> LexicalBatchConstraint:
        """This constraint for these sentences."""
        sentences = cast("Sequence[LexicalConstraint | None]", constraints)
        return LexicalBatchConstraint(self.base, self.table, sentences, has_phrases=self.allocation is not None)

    def widen(
        self, states: Tensor | None, previous: BatchConstraint, shape: tuple[int, int], device: torch.device
    ) -> Tensor | None:
        """The states with those of texts, of which nothing is required if there were none."""
        if isinstance(previous, LexicalBatchConstraint):
            assert states is not None
            self.table.retain(host_copy(text_states(states))[..., 0].flatten().tolist())
            return states
        free = torch.zeros(*shape, TextAutomaton.width, dtype=torch.long, device=device)
        return free if states is None else torch.cat([states, free], dim=-1)

    def released(self, states: Tensor | None) -> tuple[BatchConstraint, Tensor | None]:
        """The constraint on every output alone, once no output lacks anything; prefixes need no share of the beam."""
        assert states is not None
        numbers = host_copy(text_states(states))[..., 0].unique().tolist()
        if numbers == [0]:
            return self.base, states[..., : -TextAutomaton.width] if self.base.automaton else None
        if self.allocation and not any(self.table[number].has_phrases for number in numbers):
            return LexicalBatchConstraint(self.base, self.table), states
        return self, states


def _automaton(base: Constraint | None, texts: TextAutomaton) -> ConstraintSet:
    if isinstance(base, ConstraintSet):
        return ConstraintSet(base.own, [*base.others, texts])
    return ConstraintSet(base, [texts])
