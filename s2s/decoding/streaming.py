"""A search over a batch that stays full: finished sentences leave it, and queued ones take their place.

Shapes: B sentences, S source length, K hypotheses per sentence.
"""

from __future__ import annotations

__all__ = ["ActiveBatch", "Run", "StreamingSearch", "join_batches", "remaining_rows"]

import itertools
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from s2s.backend.fused import HasStreamSearch
from s2s.decoding.sentences import ActiveSentence
from s2s.decoding.starting import check_starting_tokens
from s2s.decoding.transforms import Transforms, pad_to_same, trim
from s2s.model import State
from s2s.tensors import join_tensors, select_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from s2s.backend.fused import SearchStream
    from s2s.backend.operators import SamplingRule
    from s2s.decoding.contract import SearchRequest
    from s2s.decoding.sentences import SearchResult, SourceSentence


S = TypeVar("S", bound=ActiveSentence)


@dataclass(frozen=True, kw_only=True)
class ActiveBatch(ABC, Generic[S]):
    """The sentences being searched; a search adds tensors [B, ...]."""

    run: Run[Any]
    sentences: list[S]
    state: State
    """The model's"""
    constraint_state: Tensor | None
    """[B, K, ·]"""
    output: Tensor | None = None
    """[B, K, T], tokens of each hypothesis, the newest last, -1 before the first; None if no transform needs them"""

    @property
    @abstractmethod
    def n_hypotheses(self) -> int:
        """K, which may be 1 before the first step"""

    @property
    def n_source(self) -> int:
        """Source tokens of all sentences."""
        return sum(sentence.n_source for sentence in self.sentences)

    def select(self, rows: Tensor) -> Self:
        """The batch with only the sentences `rows` [B'], on the host."""
        sentences = [self.sentences[i] for i in rows.tolist()]
        kept = select_rows(self.tensors(), rows)
        if kept["output"] is not None:
            kept["output"] = trim(kept["output"])
        return replace(self, sentences=sentences, state=self.state.select(rows), **kept)

    def can_join(self, other: Self) -> bool:
        """Whether the states of the model and of the constraint can be concatenated."""
        if self.constraint_state is not None and other.constraint_state is not None:
            return self.state.supports_join and self.constraint_state.shape[2:] == other.constraint_state.shape[2:]
        return self.state.supports_join

    def join(self, other: Self) -> Self:
        """The sentences of both, these first."""
        return join_batches(self, other)

    def tensors(self) -> dict[str, Any]:
        """The fields of a search: tensors [B, ...], and values that belong to no single row."""
        return {name: x for name, x in vars(self).items() if name not in ("run", "sentences", "state")}


B = TypeVar("B", bound=ActiveBatch[Any])


def join_batches(first: B, second: B, **changes: Any) -> B:
    """The sentences of both, in this order, with changes to fields that belong to no single row."""
    if first.output is not None and second.output is not None:
        outputs = pad_to_same(first.output, second.output)
        first, second = (replace(batch, output=output) for batch, output in zip((first, second), outputs, strict=True))
    joined = join_tensors(first.tensors(), second.tensors()) | changes
    sentences = first.sentences + second.sentences
    return replace(first, sentences=sentences, state=first.state.join(second.state), **joined)


def _released(batch: B) -> B:
    """The batch without a constraint that none of its sentences needs any more; others may wait with its states."""
    run = batch.run
    if run.waiting:
        return batch
    run.constraint, states = run.constraint.released(batch.constraint_state)
    return batch if states is batch.constraint_state else replace(batch, constraint_state=states)


class Run(Generic[B]):
    """What all steps of one call of a search share; a search that needs more derives from it."""

    def __init__(self, request: SearchRequest) -> None:
        self.request = request
        self.constraint = request.batch_constraint()
        """On the outputs of the current batch"""
        self.transforms = Transforms(request.transforms, request.vocab.tgt, request.device)
        self.waiting: deque[B] = deque()
        """Sentences that are started but cannot join the batch; they form the next ones"""
        self.stream: SearchStream | None = None
        """Sentences whose whole search is a function of the model"""
        self.whole = False
        """Whether a stream may take the place of all that happens to a sentence, see `StreamingSearch.admit_whole`"""
        self.sampling: SamplingRule | None = None
        """How each of `nbest` outputs is drawn; None: the most probable ones are searched"""
        self.seed = 0
        """Of the random numbers in sampling, see `SourceSentence.sampling_key`"""

    @property
    def n_streamed(self) -> int:
        """Source tokens of the sentences in the stream."""
        return self.stream.n_source if self.stream else 0


class StreamingSearch(ABC, Generic[B]):
    """A `Search` that works on a batch step by step. Calls may overlap, since each has a `Run` of its own."""

    config: Any
    """Its options, a `SearchConfig`, from which `admit_whole` takes the limits of outputs"""

    @torch.no_grad()
    def __call__(self, request: SearchRequest) -> Iterator[list[SearchResult]]:
        """Results in the order in which sentences finish, each as soon as it is known."""
        run = self.begin(request)
        batch, n_before = self.admit(run, None), 0
        while batch is not None or run.n_streamed:
            if batch is not None and len(batch.sentences) > n_before:  # newly admitted ones have taken a step
                batch, results = self.without_done(batch)
                yield from results
            if batch is not None or run.n_streamed:
                batch = self.without_cancelled(run, batch)
            if run.stream and run.n_streamed and (found := run.stream.steps(request.queue.steps_at_once)):
                yield found
            if batch is not None:
                batch, results = self.without_done(self.steps(_released(batch), request.queue.steps_at_once))
                yield from results
            n_before = len(batch.sentences) if batch is not None else 0
            batch = self.admit(run, batch)

    def begin(self, request: SearchRequest) -> Run[B]:
        """What the steps of this call share."""
        return Run(request)

    @abstractmethod
    def start(self, run: Any, sentences: list[SourceSentence]) -> B:
        """The batch before its first token, of sentences with equally many starting tokens; see `start_sentences`.

        run: what `begin` returned.
        """

    @abstractmethod
    def step(self, batch: B) -> B:
        """The batch with one more token for each hypothesis."""

    def steps(self, batch: B, max_steps: int) -> B:
        """The batch after one step, or up to `max_steps` steps; fewer as `SentenceQueue.stop_threshold` says."""
        return self.step(batch)

    @abstractmethod
    def is_done(self, batch: B) -> Tensor:
        """Which sentences are finished: [B]"""

    @abstractmethod
    def result(self, batch: B, row: int) -> SearchResult:
        """The result of the finished sentence in this row."""

    def results(self, batch: B, rows: Sequence[int]) -> list[SearchResult]:
        """The results of the finished sentences in these rows."""
        return [self.result(batch, row) for row in rows]

    def without_done(self, batch: B) -> tuple[B | None, list[list[SearchResult]]]:
        """The batch without the sentences that are done, and the list of their results, if there are any."""
        done = self.is_done(batch).cpu()
        if not done.any():
            return batch, []
        results = self.results(batch, done.nonzero()[:, 0].tolist())  # before `drop`, which modifies the batch
        return self.drop(batch, done), [results]

    def drop(self, batch: B, done: Tensor) -> B | None:
        """The sentences that are not `done` [B], on the host; None if there are none."""
        return None if done.all() else batch.select(remaining_rows(done))

    def without_cancelled(self, run: Run[B], batch: B | None) -> B | None:
        """The sentences of the batch that were not cancelled, which leave those that wait and the stream, too;
        None if there are none."""
        cancelled = run.request.queue.take_cancelled()
        if not cancelled:
            return batch
        if run.stream:
            run.stream.cancel(cancelled)
        remaining = [self._without(waiting, cancelled) for waiting in run.waiting]
        run.waiting = deque(waiting for waiting in remaining if waiting is not None)
        return None if batch is None else self._without(batch, cancelled)

    def _without(self, batch: B, cancelled: Collection[int]) -> B | None:
        dropped = [sentence.index in cancelled for sentence in batch.sentences]
        return self.drop(batch, torch.tensor(dropped)) if any(dropped) else batch

    def admit_whole(self, run: Any, sentences: Sequence[SourceSentence]) -> Sequence[SourceSentence]:
        """Let sentences join the run's stream, where the model has one; those that cannot are returned."""
        request = run.request
        if not run.whole:
            return sentences
        is_plain = [not s.constraint for s in sentences]
        plain = list(itertools.compress(sentences, is_plain))
        if not plain or not (stream := self._stream(run)):
            return sentences
        starts = [request.starting_tokens(sentence) for sentence in plain]
        for start in starts:
            check_starting_tokens(start, request.vocab)
        limits = [
            self.config.max_output_length(len(sentence.ids) - 1, request.model.max_len, len(start))
            for sentence, start in zip(plain, starts, strict=True)
        ]
        self._prepare_limit(run, max(limits))
        others = stream.admit(run, plain, limits)
        return [*others, *(s for s, plain in zip(sentences, is_plain, strict=True) if not plain)]

    def _stream(self, run: Any) -> SearchStream | None:
        """The run's stream, made when it is first needed; None: the model has none, or none for the constraint."""
        model = run.request.model
        if not run.stream and isinstance(model, HasStreamSearch) and (make_stream := model.stream_search()):
            run.stream = make_stream(self, run)
        return run.stream

    def _prepare_limit(self, run: Any, limit: int) -> None:
        """Let the run have what a stream reads for outputs of up to `limit` tokens."""

    def admit(self, run: Run[B], batch: B | None) -> B | None:
        """The batch with those queued sentences that fit and whose states can join; None if there are none."""
        if batch is None and run.waiting:
            batch = run.waiting.popleft()
        if run.waiting or (batch is not None and not batch.state.supports_join):
            return batch
        queue = run.request.queue
        n_in_use = run.n_streamed + (0 if batch is None else batch.n_source)
        sentences = self.admit_whole(run, queue.admit(n_in_use))
        if not sentences:
            return batch
        batch = self._constrain(run, batch, sentences)
        for group in self._startable(run, sentences):
            n_steps = queue.steps_at_once if batch is None and len(group) == len(sentences) else 1
            admitted = self.steps(self.start(run, group), n_steps)
            if batch is None:
                batch = admitted
            elif batch.can_join(admitted):
                batch = batch.join(admitted)
            else:
                run.waiting.append(admitted)
        return batch

    def _constrain(self, run: Run[B], batch: B | None, sentences: Sequence[SourceSentence]) -> B | None:
        """Extend the run's constraint to new sentences, and the states of the batch with it."""
        before = run.request.batch_constraint() if batch is None else run.constraint
        run.constraint = before.for_sentences([sentence.constraint for sentence in sentences])
        if batch is None:
            return None
        shape = (len(batch.sentences), batch.n_hypotheses)
        states = run.constraint.widen(batch.constraint_state, before, shape, run.request.device)
        return replace(batch, constraint_state=states)

    def _startable(self, run: Run[B], sentences: Sequence[SourceSentence]) -> list[list[SourceSentence]]:
        """The sentences in groups that can be started together: with the same number of starting tokens."""
        groups: dict[int, list[SourceSentence]] = {}
        for sentence in sentences:
            groups.setdefault(len(run.request.starting_tokens(sentence)), []).append(sentence)
        return list(groups.values())


def remaining_rows(done: Tensor) -> Tensor:
    """The rows that are not `done` [B]; the last of them fill the gaps, so that few are moved."""
    n = int((~done).sum())
    rows = torch.arange(n, device=done.device)
    rows[done[:n]] = n + (~done[n:]).nonzero()[:, 0]
    return rows
