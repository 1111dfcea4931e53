"""Lexical constraints: the prefix and the phrases that the output of one sentence must contain.

They hold for the text of an output, whatever tokens spell it, after Hokamp and Liu (2017).
Shapes: B sentences, K hypotheses per sentence.
"""

from __future__ import annotations

__all__ = ["LexicalBatchConstraint", "LexicalConstraint", "LexicalConstraints"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from s2s import Example
from s2s.decoding import BatchConstraint, ConstraintSet
from s2s.generation import RequestConstraints
from s2s_constraints.allocation import PhraseAllocation
from s2s_constraints.automaton import StateTable, TextAutomaton
from s2s_constraints.phrases import Phrase
from s2s_constraints.spelling import Spelling
from s2s_constraints.symbols import symbols_of
from s2s_constraints.task_texts import TaskTexts
from s2s_constraints.text_state import FREE, TextState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Choice, Constraint, Task
    from s2s.decoding import SentenceConstraint
    from s2s.generation import Input
    from s2s_constraints import ConstraintOptions


@dataclass(frozen=True)
class LexicalConstraint:
    """What one output must contain."""

    spelling: Spelling
    prefixes: tuple[str, ...] = ()
    """The symbols with which it must begin, in each way to spell them; none: any"""
    phrases: tuple[Phrase, ...] = ()
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
            self.table.retain(states[..., -TextAutomaton.width].flatten().tolist())
            return states
        free = torch.zeros(*shape, TextAutomaton.width, dtype=torch.long, device=device)
        return free if states is None else torch.cat([states, free], dim=-1)

    def released(self, states: Tensor | None) -> tuple[BatchConstraint, Tensor | None]:
        """The constraint on every output alone, once no output lacks anything; prefixes need no share of the beam."""
        assert states is not None
        of_every, texts = states.tensor_split([-TextAutomaton.width], dim=-1)
        numbers = texts[..., 0].unique().tolist()
        if numbers == [0]:
            return self.base, of_every if self.base.automaton else None
        if self.allocation and not any(self.table[number].has_phrases for number in numbers):
            return LexicalBatchConstraint(self.base, self.table), states
        return self, states


def _automaton(base: Constraint | None, texts: TextAutomaton) -> ConstraintSet:
    if isinstance(base, ConstraintSet):
        return ConstraintSet(base.own, [*base.others, texts])
    return ConstraintSet(base, [texts])


class LexicalConstraints(RequestConstraints):
    """The constraints that prefix and phrases of an input set on its output."""

    reads_texts = True

    def __init__(self, config: Choice) -> None:
        self._spellings: dict[Task, Spelling] = {}

    def for_sentence(
        self,
        config: ConstraintOptions,  # type: ignore[override]  # which this plugin adds to GenerateConfig
        task: Task,
        sentence: Input,
    ) -> LexicalConstraint | None:
        """Prefix and phrases in the task's spelling; DataError if they cannot be output verbatim."""
        phrases = [phrase for phrase in sentence.phrases if phrase]
        if not sentence.prefix and not phrases:
            return None
        texts = TaskTexts(task, Example(sentence.src, fields=sentence.fields), self._spelling(task))
        prefixes = texts.prefixes(sentence.prefix) if sentence.prefix else ()
        whole = config.phrases_match == "words"
        return LexicalConstraint(texts.spelling, prefixes, tuple(texts.phrase(text, whole=whole) for text in phrases))

    def _spelling(self, task: Task) -> Spelling:
        if task not in self._spellings:
            spellings = task.spellings()
            spelt = Spelling.tokens(task.vocab.tgt) if spellings is None else Spelling(list(map(symbols_of, spellings)))
            self._spellings[task] = spelt
        return self._spellings[task]
