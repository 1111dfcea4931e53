"""One model, its queue and the search thread: sentences of all requests share one batch."""

from __future__ import annotations

__all__ = ["SHORT", "Engine", "warm_up_text"]

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from s2s import ConfigError
from s2s.decoding import SearchResult, SourceSentence
from s2s.generation import Generator, Segment
from s2s_serve.refusal import busy, invalid, too_large, unavailable
from s2s_serve.request_queue import QueueClosedError, RequestQueue, serve
from s2s_serve.wakeups import Wakeups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from s2s import Task
    from s2s.decoding import Hypothesis
    from s2s.generation import LoadedGenerator

T = TypeVar("T")
logger = logging.getLogger(__name__)

WARM_UP = "a"
SHORT = 500
"""Characters that are read or written in less time than another thread takes to begin on a busy core"""


class Engine:
    """Searches and scores for any number of requests; all but `start` and `close` are called in the event loop."""

    def __init__(self, name: str, loaded: LoadedGenerator, max_waiting: int) -> None:
        """max_waiting: maximum number of source tokens, over all requests, not yet answered."""
        self.name, self.description, self.max_waiting = name, loaded.description, max_waiting
        self.generator, self.provenance = loaded.generator, loaded.provenance
        self.searcher = loaded.generator.search.with_model()
        self.aligning_generator = _with_alignment(loaded.generator)
        """The generator that aligns words; None if the architecture gives no attention"""
        self.task, self.model = self.generator.task, self.searcher.model
        self.n_candidates = cache(lambda nbest: replace(self.generator.config, nbest=nbest).n_candidates)
        """Outputs of the search that are needed for so many of an input"""
        self.n_waiting = self.n_failures = 0
        self.answered: RequestQueue | None = None
        """The queue from which the latest answer came"""
        self.rate = 0.0
        """Source tokens per second, a running mean over answers"""
        self.text = ThreadPoolExecutor(1, f"{name}-text")
        """Tokenises and writes what is long"""
        self.n_in_text_thread = 0
        """Functions that it has not finished"""
        self.wakeups = Wakeups()
        self.queue = self._new_queue()
        self.thread = threading.Thread(target=self._run, name=f"{name}-search", daemon=True)
        self.closing = False

    @property
    def ready(self) -> bool:
        """Whether a sentence has been answered, and the search has not failed since."""
        return self.answered is self.queue

    @property
    def nbest(self) -> int:
        """Maximum number of outputs of an input."""
        return self.generator.config.nbest

    def check_nbest(self, n: int) -> None:
        """Raise RefusedError for more outputs of an input than there are."""
        if n > self.nbest:
            raise invalid(f"nbest: {n} are more than the {self.nbest} that {self.name} gives")

    def start(self) -> None:
        """Start the search, and answer one sentence, after which the engine is `ready`."""
        self.thread.start()
        ids = self.task.encode_source([warm_up_text(self.task)])[0]
        queue = self.queue
        self._put(Segment("", ids)).result()
        self.answered = queue

    def close(self) -> None:
        """Accept no more sentences, and end when the waiting ones are answered."""
        self.closing = True
        self.queue.close()
        self.thread.join()
        self.text.shutdown()

    @contextmanager
    def admitted(self, n_tokens: int) -> Iterator[None]:
        """Reserve room for a request of `n_tokens` source tokens; raises RefusedError if there is none."""
        if n_tokens > self.max_waiting:
            raise too_large(f"{n_tokens:,} tokens are more than the {self.max_waiting:,} that may wait; send less")
        if self.n_waiting + n_tokens > self.max_waiting:
            seconds = min(60, 1 + int(self.n_waiting / (self.rate or 1000)))
            raise busy(f"{self.n_waiting:,} tokens of other requests wait already; try again later", seconds)
        self.n_waiting += n_tokens
        begun = time.monotonic()
        try:
            yield
        finally:
            self.n_waiting -= n_tokens
            self.rate = 0.9 * self.rate + 0.1 * n_tokens / max(time.monotonic() - begun, 1e-3)

    async def search(self, segment: Segment, *, nbest: int, align: bool) -> list[Hypothesis]:
        """The outputs of a segment, best first; cancelling the call removes it from the batch.

        nbest: the outputs of which there is use; more may be found, but no others are the best.
        """
        queue, n_candidates = self.queue, self.n_candidates(nbest)
        hypotheses = await self.wakeups.result(self._put(segment, n_candidates))
        if n_candidates == 1:
            hypotheses = hypotheses[:1]  # so that no others are written as text
        if queue is self.queue:  # else the search has failed since
            self.answered = queue
        generator = self.aligning_generator if align and self.aligning_generator else self.generator
        source = SourceSentence(
            0, self.task.vocab.ended(segment.ids), starting_tokens=segment.starting_tokens, align=segment.align
        )
        if not any(stage.processes(source) for stage in generator.search.stages):
            return hypotheses

        def annotated() -> list[Hypothesis]:
            (result,) = next(generator.search.with_model().after_stages([[SearchResult(0, hypotheses)]], {0: source}))
            return result.hypotheses

        return await self.call(annotated)

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function that uses the model in the search thread, between two steps."""
        return await self.wakeups.result(self._enqueue(lambda queue: queue.call(function)))

    async def process_text(self, function: Callable[[], T], n_chars: int) -> T:
        """Run a function that reads or writes `n_chars` characters, outside the event loop unless they are few.

        Never two at once, as a tokeniser need not allow that: while the text thread is busy, it runs all functions.
        """
        return function() if n_chars <= SHORT and not self.n_in_text_thread else await self.in_text_thread(function)

    async def in_text_thread(self, function: Callable[[], T]) -> T:
        """Run a function that reads or writes text, such as the tokeniser, outside the event loop."""
        loop, running = asyncio.get_running_loop(), self.text.submit(function)
        self.n_in_text_thread += 1
        running.add_done_callback(lambda _: loop.call_soon_threadsafe(self._leave_text_thread))
        return await asyncio.wrap_future(running)

    def _leave_text_thread(self) -> None:
        self.n_in_text_thread -= 1

    def _put(self, segment: Segment, nbest: int = 1) -> Future[list[Hypothesis]]:
        ids, constraint, start = self.task.vocab.ended(segment.ids), segment.constraint, segment.starting_tokens
        return self._enqueue(lambda queue: queue.put(ids, constraint, nbest=nbest, start=start))

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
        """Search until closed; if a search fails, its requests are answered with an error and a new search begins."""
        while True:
            queue = self.queue
            try:
                searcher = self.searcher
                with searcher.precision():
                    return serve(searcher.search, searcher.request(queue), self._restart_search)
            except Exception as error:
                logger.exception("the search of %s has failed; it begins anew", self.name)
                if queue is self.queue:  # it failed before the search began
                    self._restart_search()
                    queue.fail(error)
            if self.closing:
                return self.queue.fail(QueueClosedError("the server is ending"))

    def _restart_search(self) -> None:
        self.n_failures, self.queue = self.n_failures + 1, self._new_queue()

    def _new_queue(self) -> RequestQueue:
        return RequestQueue(self.generator.config.tokens, self.wakeups.flush)


def warm_up_text(task: Task) -> str:
    """A short input; of several kinds of sources, one of the first."""
    tag = task.vocab.tag_ids[:1]
    return (task.source_text(tag) if tag else "") + WARM_UP


def _with_alignment(generator: Generator) -> Generator | None:
    config, one, task = generator.config, generator.search.with_model(), generator.task
    options = replace(config, format="jsonl", fields=[*config.fields, "align"])
    try:
        aligning = one.build(one.model, task, one.search, one.device, options, generator.plugins)
        return Generator(task, aligning, generator.plugins)
    except ConfigError:
        return None
