"""The constraint on the outputs of a batch: on every output, and on those of single sentences.

Shapes: B sentences, S source length, K hypotheses per sentence, V target tokens, n candidates.
"""

from __future__ import annotations

__all__ = ["BatchConstraint", "BeamAllocation", "SentenceConstraint"]

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from s2s.decoding.candidates import Candidates
    from s2s.task import Constraint, Vocab


class SentenceConstraint(Protocol):
    """A constraint on the output of one sentence; all those of one search are of the same class."""

    def for_batch(self, base: BatchConstraint) -> BatchConstraint:
        """The constraint of a batch whose sentences may have such constraints, besides `base`, the one on every output.

        Its `for_sentences` is its own, and does not call `for_batch` again.
        """


class BeamAllocation(Protocol):
    """Selects the candidates that stay in the beam where the best-scoring ones would never satisfy a constraint."""

    def add_required(
        self, states: Tensor, logits: Tensor, allowed: Tensor, log_probs: Tensor, tokens: Tensor, banned: Tensor
    ) -> tuple[Tensor, Tensor]:
        """log_probs and tokens [B, K, n] with further candidates; -inf marks no candidate.

        states [B, K, ·], logits and allowed [B, K, V]. banned: ids of the tokens that no output has.
        """

    def select(self, states: Tensor, candidates: Candidates, n: int) -> Candidates:
        """n of the candidates, which may be on the host, best first; `states` are those of the hypotheses that they
        extend, and on the device of the result."""


class BatchConstraint:
    """An automaton over the hypotheses of a batch, or none; states are int64 [B, K, ·], or None without an automaton.

    This one holds for every output. Where sentences have constraints of their own, a class that derives from it has
    states that widen as sentences join the batch.
    """

    allocation: BeamAllocation | None = None
    """How the beam is allocated; None: to the best candidates"""

    def __init__(self, automaton: Constraint | None, vocab: Vocab, *, normalize: bool) -> None:
        """normalize: whether the model returns logits, which a search normalises."""
        self.automaton, self.vocab, self.normalize = automaton, vocab, normalize

    def for_sentences(self, constraints: Sequence[SentenceConstraint | None]) -> BatchConstraint:
        """The constraint of the batch once sentences with these constraints join it; it starts exactly these.

        The first of them makes the constraint of its class, whose own `for_sentences` then takes them all.
        """
        first = next((constraint for constraint in constraints if constraint is not None), None)
        return self if first is None else first.for_batch(self).for_sentences(constraints)

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor | None:
        """States [B, 1, ·] of the empty outputs: src, pad [B, S]; limit [B], most tokens of each, without eos."""
        return self.automaton.start(src, pad, limit) if self.automaton else None

    def widen(
        self, states: Tensor | None, previous: BatchConstraint, shape: tuple[int, int], device: torch.device
    ) -> Tensor | None:
        """States of the constraint `previous`, from which this was made, as states of this one; shape is [B, K]."""
        del previous, shape, device
        return states

    def released(self, states: Tensor | None) -> tuple[BatchConstraint, Tensor | None]:
        """The constraint that holds from now on, and its states: another one where no sentence needs this any more."""
        return self, states

    def allowed(self, states: Tensor | None, n_tokens: int) -> Tensor | None:
        """The tokens that may come next, [B, K, V]; None: all. n_tokens: V."""
        if self.automaton is None or states is None:
            return None
        from s2s.decoding.constraints import tokens_allowed  # torch, which reading texts does without

        return tokens_allowed(self.automaton, states, n_tokens)

    def advance(self, states: Tensor | None, tokens: Tensor, parents: Tensor | None = None) -> Tensor | None:
        """The states after `tokens` [B, K'], which extend the hypotheses `parents` [B, K'], or each its own."""
        if self.automaton is None or states is None:
            return None
        from s2s.decoding.model_scores import gather_hypotheses

        return self.automaton.advance(states if parents is None else gather_hypotheses(states, parents), tokens)
