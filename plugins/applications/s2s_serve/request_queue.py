"""Sentences that other threads add to a running search, such as the requests of a server.

queue = RequestQueue(n_tokens=1000)
Thread(target=serve, args=(queue, search.queued)).start()  # a `s2s.generation.SegmentSearch`
hypotheses = queue.put(ids).result()  # or: await asyncio.wrap_future(queue.put(ids))
queue.close()
"""

from __future__ import annotations

__all__ = ["QueueClosedError", "RequestQueue", "StepPacer", "serve"]

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from s2s.decoding import Hypothesis, SentenceConstraint, SentenceQueue, SourceSentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.decoding import SearchResult

T = TypeVar("T")
QueueSearch = Callable[[SentenceQueue], "Iterator[Iterable[SearchResult]]"]
"""The result of each sentence of a queue, as soon as it is known"""

ADMISSION_INTERVAL = 0.02
"""Interval in seconds at which sentences may join or leave the batch"""
MAX_STEPS = 32


class QueueClosedError(RuntimeError):
    """The queue accepts no more sentences, since it was closed or its search failed."""


class StepPacer:
    """Adapts the number of steps a search takes at once, so that they take about `ADMISSION_INTERVAL` seconds."""

    def __init__(self) -> None:
        self.n_steps = 1
        self._begun: float | None = None

    def begin(self, now: float) -> None:
        """Record that the steps begin."""
        self._begun = now

    def end(self, now: float) -> None:
        """Adapt `n_steps` after steps, which may have ended early with a sentence; no effect if there were none."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        if now - begun > ADMISSION_INTERVAL:
            self.n_steps = max(1, self.n_steps // 2)
        elif now - begun < ADMISSION_INTERVAL / 2:
            self.n_steps = min(2 * self.n_steps, MAX_STEPS)


class RequestQueue(SentenceQueue):
    """A thread-safe, unbounded queue that any threads fill and one search empties; sentences keep their order.

    Each sentence has a future of its hypotheses, resolved as soon as its search ends. Cancelling the future removes the
    sentence from the queue or from the batch.
    """

    def __init__(self, n_tokens: int, resolved: Callable[[], None] = lambda: None) -> None:
        """n_tokens: maximum source tokens, eos included, in the batch. resolved: called after futures are resolved."""
        super().__init__(n_tokens)
        self.resolved = resolved
        self.n_in_batch = 0
        """Source tokens in the batch"""
        self.pacer = StepPacer()
        self._changed = threading.Condition()
        self._waiting: deque[SourceSentence] = deque()
        self._futures: dict[int, Future[list[Hypothesis]]] = {}
        self._cancelled: set[int] = set()
        self._calls: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._numbers = itertools.count()
        self._closed = False

    def put(
        self,
        ids: Sequence[int],
        constraint: SentenceConstraint | None = None,
        *,
        nbest: int | None = None,
        start: Sequence[int] = (),
    ) -> Future[list[Hypothesis]]:
        """Add a sentence of source ids, eos included; the future of its hypotheses, best first.

        constraint, nbest, start: see `SourceSentence`. Raises QueueClosedError.
        """
        with self._changed:
            self._check_open()
            index, future = next(self._numbers), Future[list[Hypothesis]]()
            self._futures[index] = future
            self._waiting.append(SourceSentence(index, ids, constraint, nbest, start))
            self._changed.notify_all()
        future.add_done_callback(lambda done: self._drop(index) if done.cancelled() else None)
        return future

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run `function` in the search thread, between two of its steps; the future of its result.

        For other uses of the model, such as scoring an output: only one thread may use a model at a time.
        """
        with self._changed:
            self._check_open()
            future = Future[T]()
            self._calls.append((function, future))
            self._changed.notify_all()
        return future

    def close(self) -> None:
        """Accept no more sentences; the search ends when those already in the queue are finished."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Close the queue, and set `error` on every unresolved future."""
        self.close()
        with self._changed:
            self._waiting.clear()
            futures, self._futures = self._futures, {}
            calls, self._calls = self._calls, []
        for future in [*futures.values(), *(future for _, future in calls)]:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
        self.resolved()

    def resolve(self, results: Sequence[SearchResult]) -> None:
        """Resolve the futures of sentences with their hypotheses."""
        with self._changed:
            futures = [self._futures.pop(result.index, None) for result in results]
            self._cancelled.difference_update(result.index for result in results)
        for future, result in zip(futures, results, strict=True):
            if future and future.set_running_or_notify_cancel():
                future.set_result(result.hypotheses)
        self.resolved()

    def peek(self, *, wait: bool) -> SourceSentence | None:
        """The first sentence, or None; with `wait`, blocks until there is a sentence or the queue is closed."""
        while True:
            self._run_calls()
            with self._changed:
                if wait:
                    self._changed.wait_for(lambda: self._waiting or self._calls or self._closed)
                if self._waiting or not (wait and self._calls):
                    return self._waiting[0] if self._waiting else None

    def pop(self, sentence: SourceSentence) -> bool:
        """Remove this sentence from the queue; False if it was cancelled meanwhile."""
        with self._changed:
            if not self._waiting or self._waiting[0] is not sentence:
                return False
            self._waiting.popleft()
            return True

    @property
    def steps_at_once(self) -> int:
        """Steps between two admissions, such that no sentence waits much longer than `ADMISSION_INTERVAL` seconds."""
        return self.pacer.n_steps

    def admit(self, n_in_use: int) -> list[SourceSentence]:
        """See `SentenceQueue.admit`; called after steps."""
        self.pacer.end(time.perf_counter())
        self.n_in_batch = n_in_use
        admitted = super().admit(n_in_use)
        self.n_in_batch += sum(len(sentence.ids) for sentence in admitted)
        return admitted

    def take_cancelled(self) -> set[int]:
        """Indices of sentences in the batch that were cancelled since the last call; called before steps."""
        self._run_calls()
        cancelled: set[int] = set()
        if self._cancelled:
            with self._changed:
                cancelled, self._cancelled = self._cancelled, set()
        self.pacer.begin(time.perf_counter())
        return cancelled

    def _run_calls(self) -> None:
        if not self._calls:
            return
        with self._changed:
            calls, self._calls = self._calls, []
        for function, future in calls:
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        self.resolved()

    def _drop(self, index: int) -> None:
        """Remove a cancelled sentence, or mark it if it is in the batch."""
        with self._changed:
            if self._futures.pop(index, None) is None:
                return
            waiting = [sentence for sentence in self._waiting if sentence.index != index]
            if len(waiting) == len(self._waiting):
                self._cancelled.add(index)
            self._waiting = deque(waiting)

    def _check_open(self) -> None:
        if self._closed:
            raise QueueClosedError("the queue is closed")


def serve(queue: RequestQueue, search: QueueSearch, on_error: Callable[[], None] = lambda: None) -> None:
    """Resolve the futures of a queue by a search until it is closed and empty.

    An error of the search closes the queue, is set on every unresolved future, and is raised. `on_error` is called
    before any future is resolved with it, so that an immediate retry can use a new queue.
    """
    try:
        for results in search(queue):
            queue.resolve(list(results))
    except BaseException as error:
        try:
            on_error()
        finally:
            queue.fail(error)
        raise
    queue.fail(QueueClosedError("the search has ended without a result for this sentence"))
