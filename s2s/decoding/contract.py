"""The contract between a search and its callers: one request in, results out.

Of a `Seq2Seq` a search uses only `encode`, `start`, `step` and `returns_log_probs`, and of its `State` only `reorder`,
`select` and `join`, so every search works with every architecture.
Shapes: B sentences, S source length.
"""

from __future__ import annotations

__all__ = ["Search", "SearchRequest", "SourceBatch", "search_all"]

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import torch

from s2s.batch import make_batch
from s2s.decoding.batch_constraint import BatchConstraint
from s2s.decoding.constraints import ConstraintSet
from s2s.decoding.queue import FixedQueue, SentenceQueue
from s2s.decoding.sentences import SourceSentence
from s2s.decoding.shortlist import Shortlist
from s2s.decoding.token_constraints import option_constraints
from s2s.decoding.transforms import LogitsTransform, option_transforms
from s2s.model import Seq2Seq
from s2s.task import Constraint, Vocab
from s2s.tensors import host_copy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from s2s.decoding.config import SearchConfig
    from s2s.decoding.constraints import FixedWidthConstraint
    from s2s.decoding.sentences import Hypothesis, SearchResult


class SourceBatch(NamedTuple):
    """Sentences that a search without streaming processes together."""

    sentences: list[SourceSentence]
    src: Tensor
    """[B, S], each row ending in eos"""
    pad: Tensor
    """[B, S], True at padding"""
    constraint: Constraint | None
    """The constraint on the outputs of these sentences, in this order"""


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """Sentences, the model that decodes them, and the constraint on their outputs."""

    model: Seq2Seq
    vocab: Vocab
    queue: SentenceQueue
    """The sentences; a custom queue may add more of them while the search runs"""
    device: torch.device
    constraint: Constraint | None = None
    """On every output; the search adds those of single sentences (`SourceSentence.constraint`)"""
    nbest: int = 1
    """Hypotheses per sentence"""
    transforms: Sequence[LogitsTransform] = ()
    """Change the logits, one after another, before tokens are chosen; the search's options may add some before them"""
    shortlist: Shortlist | None = None
    """The tokens of outputs, for a model that `reads_shortlists`; sentences with a constraint have all tokens"""
    has_log_probs: bool = False
    """Whether transforms return log-probabilities, which are not normalised"""

    @classmethod
    def from_batch(
        cls,
        model: Seq2Seq,
        src: Tensor,
        pad: Tensor,
        vocab: Vocab,
        constraint: Constraint | None = None,
        *,
        nbest: int = 1,
    ) -> Self:
        """A request for the rows of src [B, S], each ending in eos, searched together; pad [B, S], True at padding."""
        rows = host_copy(src).masked_fill(host_copy(pad), -1).tolist()
        sentences = [SourceSentence(i, [token for token in row if token >= 0]) for i, row in enumerate(rows)]
        queue = FixedQueue(sentences, max(src.numel(), 1))
        return cls(model=model, vocab=vocab, queue=queue, device=src.device, constraint=constraint, nbest=nbest)

    def starting_tokens(self, sentence: SourceSentence) -> tuple[int, ...]:
        """The tokens that are fed to the model before the first prediction, at least one."""
        return tuple(sentence.starting_tokens) or self.vocab.starting_tokens

    def with_options(self, config: SearchConfig) -> Self:
        """The request with the transforms and constraints that a search's options name."""
        own, rules = option_transforms(config, self.vocab), option_constraints(config, self.vocab)
        request = replace(self, constraint=_joined(self.constraint, rules), shortlist=None) if rules else self
        if not own:
            return request
        log_probs = config.sums_changed_log_probs
        return replace(request, transforms=[*own, *self.transforms], has_log_probs=log_probs)

    @property
    def normalize(self) -> bool:
        """Whether the search applies a softmax: to logits of the model, or to what transforms have changed."""
        return not self.has_log_probs and (bool(self.transforms) or not self.model.returns_log_probs)

    def batch_constraint(self) -> BatchConstraint:
        """The constraint of a batch without sentences."""
        return BatchConstraint(self.constraint, self.vocab, normalize=self.normalize)

    def batches(self) -> Iterator[SourceBatch]:
        """The sentences in batches, for a search that finishes one batch before it takes the next."""
        while sentences := self.queue.admit(0):
            rows = make_batch([(self.vocab.without_end(sentence.ids), []) for sentence in sentences], self.vocab).to(
                self.device
            )
            constraint = self.batch_constraint().for_sentences([sentence.constraint for sentence in sentences])
            yield SourceBatch(sentences, rows.src, rows.src_pad, constraint.automaton)


def _joined(constraint: Constraint | None, others: Sequence[FixedWidthConstraint]) -> ConstraintSet:
    """All of them as one."""
    if isinstance(constraint, ConstraintSet):
        return ConstraintSet(constraint.own, [*constraint.others, *others])
    return ConstraintSet(constraint, others)


class Search(Protocol):
    """Finds outputs of high probability."""

    def __call__(self, request: SearchRequest) -> Iterator[list[SearchResult]]:
        """One result for each sentence of `request.queue`, as soon as it is known, in any order."""


def search_all(search: Search, request: SearchRequest) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence of a queue that ends, best first, in the order of the sentences' indices."""
    found = {result.index: result.hypotheses for results in search(request) for result in results}
    return [found[index] for index in sorted(found)]
