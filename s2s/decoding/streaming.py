"""A search over a batch that stays full: finished sentences leave it, and queued ones take their place.

Shapes: B sentences, S source length, K hypotheses per sentence.
"""

from __future__ import annotations

__all__ = ["ActiveBatch", "ActiveSentence", "StreamingSearch", "remaining_rows"]

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from s2s.decoding.constraints import GrowingConstraint, grow_constraint, tokens_allowed
from s2s.model import State
from s2s.tensors import join_tensors, map_tensors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from s2s.decoding import SearchResult
    from s2s.decoding.request import SearchRequest, SourceSentence
    from s2s.task import Constraint


@dataclass(frozen=True)
class ActiveSentence:
    """The host's record of a sentence in the batch."""

    index: int
    """Identifies its result"""
    n_source: int
    """Source tokens, eos included"""


S = TypeVar("S", bound=ActiveSentence)


@dataclass(frozen=True, kw_only=True)
class ActiveBatch(ABC, Generic[S]):
    """The sentences being searched; a search adds tensors [B, ...]."""

    sentences: list[S]
    state: State
    """The model's"""
    constraint_state: Tensor | None
    """[B, K, ·]"""

    @property
    @abstractmethod
    def n_hypotheses(self) -> int:
        """K, which may be 1 before the first step"""

    @property
    def n_source(self) -> int:
        """Source tokens of all sentences."""
        return sum(sentence.n_source for sentence in self.sentences)

    def select(self, rows: Tensor) -> Self:
        """The batch with only the sentences `rows` [B']."""
        sentences = [self.sentences[i] for i in rows.tolist()]
        kept = map_tensors(lambda t: t.index_select(0, rows), self.tensors())
        return replace(self, sentences=sentences, state=self.state.select(rows), **kept)

    def can_join(self, other: Self) -> bool:
        """Whether the states of the model and of the constraint can be concatenated."""
        if self.constraint_state is not None and other.constraint_state is not None:
            return self.state.supports_join and self.constraint_state.shape[2:] == other.constraint_state.shape[2:]
        return self.state.supports_join

    def join(self, other: Self) -> Self:
        """The sentences of both, these first."""
        joined = join_tensors(self.tensors(), other.tensors())
        return replace(self, sentences=self.sentences + other.sentences, state=self.state.join(other.state), **joined)

    def tensors(self) -> dict[str, Any]:
        """All fields but sentences and the model's state: tensors [B, ...], and values that belong to no single row."""
        return {name: x for name, x in vars(self).items() if name not in ("sentences", "state")}


B = TypeVar("B", bound=ActiveBatch[Any])


class StreamingSearch(ABC, Generic[B]):
    """A `Search` that works on a batch step by step.

    Each call runs on a copy of the search, so `begin` may set attributes, and calls may overlap.
    """

    request: SearchRequest
    constraint: Constraint | None
    """On the outputs of the current batch"""
    growing_constraint: GrowingConstraint | None
    """Where `constraint` comes from if sentences have constraints of their own"""
    waiting: list[B]
    """Sentences that are started but cannot join the batch; they form the next ones"""

    @torch.no_grad()
    def __call__(self, request: SearchRequest) -> Iterator[list[SearchResult]]:
        """Results in the order in which sentences finish, each as soon as it is known."""
        run = copy.copy(self)
        run.begin(request)
        batch, n_before = run.admit(None), 0
        while batch is not None:
            if len(batch.sentences) > n_before:  # newcomers have taken a step, and may be done
                batch, found = run.without_done(batch)
                yield from found
            if batch is not None and (batch := run.without_cancelled(batch)) is not None:
                batch, found = run.without_done(run.steps(batch, run.request.queue.steps_at_once))
                yield from found
            n_before = len(batch.sentences) if batch is not None else 0
            batch = run.admit(batch)

    def without_done(self, batch: B) -> tuple[B | None, list[list[SearchResult]]]:
        """The batch without the sentences that are done, and the list of their results, if there are any."""
        done = self.is_done(batch)
        if not done.any():
            return batch, []
        found = [self.result(batch, row) for row in done.nonzero()[:, 0].tolist()]  # `drop` modifies the batch
        return self.drop(batch, done), [found]

    def begin(self, request: SearchRequest) -> None:
        """Set the attributes that all steps of one request share."""
        self.request, self.waiting = request, []
        self.constraint, self.growing_constraint = request.constraint, None

    @abstractmethod
    def start(self, sentences: list[SourceSentence]) -> B:
        """The batch before its first token, of sentences with equally many starting tokens; see `start_sentences`."""

    @abstractmethod
    def step(self, batch: B) -> B:
        """The batch with one more token for each hypothesis."""

    def steps(self, batch: B, max_steps: int) -> B:
        """The batch after one step, or up to `max_steps` steps; fewer as `SentenceQueue.refill_threshold` says."""
        return self.step(batch)

    @abstractmethod
    def is_done(self, batch: B) -> Tensor:
        """Which sentences are finished: [B]"""

    @abstractmethod
    def result(self, batch: B, row: int) -> SearchResult:
        """The result of the finished sentence in this row."""

    def drop(self, batch: B, done: Tensor) -> B | None:
        """The sentences that are not `done` [B]; None if there are none."""
        return None if done.all() else batch.select(remaining_rows(done))

    def without_cancelled(self, batch: B | None) -> B | None:
        """The sentences that were not cancelled; None if there are none."""
        if cancelled := self.request.queue.take_cancelled():
            remaining = [self._without(waiting, cancelled) for waiting in self.waiting]
            self.waiting = [waiting for waiting in remaining if waiting is not None]
            return self._without(batch, cancelled)
        return batch

    def _without(self, batch: B | None, cancelled: Collection[int]) -> B | None:
        if batch is None:
            return None
        dropped = [sentence.index in cancelled for sentence in batch.sentences]
        return self.drop(batch, torch.tensor(dropped, device=self.request.device)) if any(dropped) else batch

    def admit(self, batch: B | None) -> B | None:
        """The batch with those queued sentences that fit and whose states can join; None if all are finished."""
        if batch is None and self.waiting:
            batch = self.waiting.pop(0)
        if self.waiting or (batch is not None and not batch.state.supports_join):
            return batch
        sentences = self.request.queue.admit(0 if batch is None else batch.n_source)
        if not sentences:
            return batch
        batch = self._widen(batch, sentences)
        for group in self._startable(sentences):
            n_steps = self.request.queue.steps_at_once if len(group) == len(sentences) and batch is None else 1
            newcomers = self.steps(self.start(group), n_steps)
            if batch is None:
                batch = newcomers
            elif batch.can_join(newcomers):
                batch = batch.join(newcomers)
            else:
                self.waiting.append(newcomers)
        return batch

    def _startable(self, sentences: Sequence[SourceSentence]) -> list[list[SourceSentence]]:
        """The sentences in groups that can be started together: with the same number of starting tokens."""
        groups: dict[int, list[SourceSentence]] = {}
        for sentence in sentences:
            groups.setdefault(len(self.request.starting_tokens(sentence)), []).append(sentence)
        return list(groups.values())

    def constrain(self, sentences: Sequence[SourceSentence], src: Tensor, pad: Tensor, limit: Tensor) -> Tensor | None:
        """The constraint's states [B, 1, ·] before the first token: src, pad [B, S], limit [B]."""
        wanted = [sentence.constraint for sentence in sentences]
        constraint = self.growing_constraint.bind(wanted) if self.growing_constraint else self.constraint
        return constraint.start(src, pad, limit) if constraint else None

    def tokens_allowed(self, states: Tensor, n_tokens: int) -> Tensor:
        """The tokens that the constraint allows next: states [B, K, ·] -> [B, K, V]."""
        assert self.constraint is not None
        return tokens_allowed(self.constraint, states, n_tokens)

    def constraint_changed(self) -> None:
        """Called when `constraint` has been replaced."""

    def _widen(self, batch: B | None, sentences: Sequence[SourceSentence]) -> B | None:
        """The batch with constraint states wide enough for the constraints of new sentences."""
        before, request = self.growing_constraint if batch is not None else None, self.request
        grown = grow_constraint(
            before, [sentence.constraint for sentence in sentences], request.constraint, request.vocab
        )
        if grown is not self.growing_constraint:
            self.growing_constraint, self.constraint = grown, grown.constraint if grown else request.constraint
            self.constraint_changed()
        if batch is None or grown is None or grown is before or grown.constraint is request.constraint:
            return batch
        shape = (len(batch.sentences), batch.n_hypotheses)
        return replace(batch, constraint_state=grown.widen(batch.constraint_state, before, shape, request.device))


def remaining_rows(done: Tensor) -> Tensor:
    """The rows that are not `done` [B]; the last of them fill the gaps, so that few are moved."""
    n = int((~done).sum())
    rows = torch.arange(n, device=done.device)
    rows[done[:n]] = n + (~done[n:]).nonzero()[:, 0]
    return rows
