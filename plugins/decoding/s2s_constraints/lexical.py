"""Lexical constraints: the prefix and the phrases that the output of one sentence must contain.

Their states are as wide as the longest prefix and the most and longest phrases of a batch need, so they widen as
sentences join it.
Shapes: B sentences, K hypotheses per sentence.
"""

from __future__ import annotations

__all__ = ["LexicalBatchConstraint", "LexicalConstraint", "LexicalConstraints", "LexicalSizes", "widen_state"]

from typing import TYPE_CHECKING, NamedTuple, Self, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s import Constraint, DataError, Example, Vocab
from s2s.decoding import BatchConstraint, ConstraintSet
from s2s.generation import RequestConstraints
from s2s_constraints.allocation import PhraseAllocation
from s2s_constraints.phrases import PhraseConstraint, PhraseState, PrefixConstraint
from s2s_constraints.tokens import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Choice, Task
    from s2s.decoding import FixedWidthConstraint, SentenceConstraint
    from s2s.generation import Input


class LexicalConstraint(NamedTuple):
    """What one output must contain, in target tokens."""

    prefix: Sequence[int] = ()
    """Tokens with which it must begin"""
    phrases: Sequence[Sequence[int]] = ()
    """Token sequences that it must contain, each at least once, in any order; equal phrases count once"""

    def for_batch(self, every: BatchConstraint) -> LexicalBatchConstraint:
        """The constraint of a batch without sentences, besides the one on `every` output."""
        return LexicalBatchConstraint(every, NO_SIZES)


NOTHING = LexicalConstraint()


class LexicalSizes(NamedTuple):
    """The required sizes of the states; 0: no output has such a constraint."""

    prefix: int = 0
    """Tokens of the longest prefix"""
    n_phrases: int = 0
    phrase: int = 0
    """Tokens of the longest phrase"""

    @classmethod
    def of(cls, lexical: Sequence[LexicalConstraint]) -> Self:
        """The sizes that these constraints need."""
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


class LexicalBatchConstraint(BatchConstraint):
    """The prefixes and phrases of a batch, whose states come after those of the constraint on every output."""

    def __init__(
        self, every: BatchConstraint, sizes: LexicalSizes, sentences: Sequence[LexicalConstraint] = ()
    ) -> None:
        """sentences: what `start` starts."""
        automaton = _automaton(every.automaton, every.vocab, sizes, sentences)
        super().__init__(automaton, every.vocab, normalize=every.normalize)
        self.every, self.sizes = every, sizes
        self.allocation = _allocation(automaton, normalize=every.normalize)

    def for_sentences(self, constraints: Sequence[SentenceConstraint | None]) -> LexicalBatchConstraint:
        """This constraint, also large enough for these sentences."""
        sentences = [cast("LexicalConstraint", constraint or NOTHING) for constraint in constraints]
        return LexicalBatchConstraint(self.every, self.sizes.union(LexicalSizes.of(sentences)), sentences)

    def widen(
        self, states: Tensor | None, before: BatchConstraint, shape: tuple[int, int], device: torch.device
    ) -> Tensor | None:
        """The states with room for more and longer phrases."""
        sizes = before.sizes if isinstance(before, LexicalBatchConstraint) else NO_SIZES
        return states if sizes == self.sizes else widen_state(states, sizes, self.sizes, shape, device)


def _allocation(automaton: Constraint | None, *, normalize: bool) -> PhraseAllocation | None:
    """Allocates the beam by the tokens of phrases that hypotheses lack; None without phrases."""
    if isinstance(automaton, ConstraintSet):
        for other, columns in automaton.columns():
            if isinstance(other, PhraseConstraint):
                return PhraseAllocation(other, columns, normalize)
    return None


def _automaton(
    every: Constraint | None, vocab: Vocab, sizes: LexicalSizes, sentences: Sequence[LexicalConstraint]
) -> Constraint | None:
    lexical: list[FixedWidthConstraint] = []
    if sizes.prefix:
        lexical.append(PrefixConstraint(sizes.prefix, vocab.tgt, [one.prefix for one in sentences]))
    if sizes.n_phrases:
        phrases = [one.phrases for one in sentences]
        lexical.append(PhraseConstraint(sizes.n_phrases, sizes.phrase, vocab.tgt, vocab.eos, phrases))
    if not lexical:
        return every
    if isinstance(every, ConstraintSet):
        return ConstraintSet(every.own, [*every.others, *lexical])
    return ConstraintSet(every, lexical)


def widen_state(
    state: Tensor | None, old: LexicalSizes, new: LexicalSizes, shape: tuple[int, int], device: torch.device
) -> Tensor:
    """States [B, K, ·] of constraints of `old` sizes, widened to `new`, larger ones; shape is [B, K].

    The added columns require nothing: NONE in prefix and phrases.
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


class LexicalConstraints(RequestConstraints):
    """The constraints that prefix and phrases of an input set on its output."""

    def __init__(self, config: Choice) -> None:
        pass

    def for_sentence(self, task: Task, sentence: Input) -> LexicalConstraint | None:
        """Prefix and phrases as target tokens; DataError if they cannot be output verbatim."""
        texts = [text for text in (sentence.prefix, *sentence.phrases) if text]
        if not texts:
            return None
        ids = [pair.tgt for pair in task.encode([Example(sentence.src, text) for text in texts])]
        for text, tokens in zip(texts, ids, strict=True):
            if not tokens:
                name = task.config.name
                raise DataError(f"{text!r} has no tokens in task={name}; leave it out of prefix and phrases")
            if task.vocab.unk in tokens:
                raise DataError(
                    f"{text!r} has symbols that are not in the vocabulary of task={task.config.name}, and would not "
                    "come out as it is; leave it out of prefix and phrases"
                )
        n_prefix = 1 if sentence.prefix else 0
        return LexicalConstraint(ids[0] if n_prefix else (), ids[n_prefix:])
