"""A search in a thread of its own, with its queue: sentences of all requests share one batch."""

from __future__ import annotations

__all__ = ["SearchThread"]

import logging
import threading
from typing import TYPE_CHECKING, TypeVar

from s2s_serve.refusal import unavailable
from s2s_serve.request_queue import QueueClosedError, RequestQueue, serve

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from s2s import Vocab
    from s2s.decoding import Hypothesis
    from s2s.generation import Segment
    from s2s_serve.request_queue import QueueSearch
    from s2s_serve.wakeups import Wakeups

T = TypeVar("T")
logger = logging.getLogger(__name__)


class SearchThread:
    """Answers sentences. If the search fails, those in its queue have its error, and it begins anew."""

    def __init__(self, name: str, search: QueueSearch, n_tokens: int, vocab: Vocab, wakeups: Wakeups) -> None:
        """name: of the thread, and in the log. n_tokens: maximum source tokens in the batch."""
        self.name, self.search, self.n_tokens, self.vocab, self.wakeups = name, search, n_tokens, vocab, wakeups
        self.n_failures = 0
        self.answered: RequestQueue | None = None
        """The queue from which the latest answer came"""
        self.queue = self._new_queue()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.closing = False

    @property
    def ready(self) -> bool:
        """Whether a sentence has been answered, and the search has not failed since."""
        return self.answered is self.queue

    def start(self, segment: Segment) -> None:
        """Start the search, and answer one segment, after which it is `ready`."""
        self.thread.start()
        queue = self.queue
        self.put(segment).result()
        self.answered = queue

    def close(self) -> None:
        """Accept no more sentences, and end when the waiting ones are answered."""
        self.closing = True
        self.queue.close()
        self.thread.join()

    async def hypotheses(self, segment: Segment, n: int) -> list[Hypothesis]:
        """The outputs of a segment, best first, at least the n best that there are; called in the event loop.

        Cancelling the call removes the segment from the batch.
        """
        queue = self.queue
        found = await self.wakeups.result(self.put(segment, n))
        if queue is self.queue:  # else the search has failed since
            self.answered = queue
        return found

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function in the thread, between two steps; called in the event loop."""
        return await self.wakeups.result(self._enqueue(lambda queue: queue.call(function)))

    def put(self, segment: Segment, n: int = 1) -> Future[list[Hypothesis]]:
        """The future of a segment's outputs."""
        ids, constraint, start = self.vocab.ended(segment.ids), segment.constraint, segment.starting_tokens
        return self._enqueue(lambda queue: queue.put(ids, constraint, nbest=n, start=start))

    def _enqueue(self, add: Callable[[RequestQueue], Future[T]]) -> Future[T]:
        """The queue's future; if its search fails at this moment, that of the next search's queue."""
        while True:
            queue = self.queue
            try:
                return add(queue)
            except QueueClosedError as error:
                if queue is self.queue:
                    raise unavailable("the server is ending") from error

    def _run(self) -> None:
        """Search until closed."""
        while True:
            queue = self.queue
            try:
                return serve(queue, self.search, self._restart)
            except Exception as error:
                logger.exception("%s has failed; it begins anew", self.name)
                if queue is self.queue:  # it failed before the search began
                    self._restart()
                    queue.fail(error)
            if self.closing:
                return self.queue.fail(QueueClosedError("the server is ending"))

    def _restart(self) -> None:
        self.n_failures, self.queue = self.n_failures + 1, self._new_queue()

    def _new_queue(self) -> RequestQueue:
        return RequestQueue(self.n_tokens, self.wakeups.flush)
