"""One model: its search, what needs the model itself, and the thread that reads and writes long texts."""

from __future__ import annotations

__all__ = ["SHORT", "Engine", "warm_up_text"]

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from s2s import UserError
from s2s.decoding import SearchResult, SourceSentence
from s2s.generation import Generator, Segment
from s2s_serve.refusal import busy, invalid, too_large, unavailable
from s2s_serve.search_thread import SearchThread
from s2s_serve.wakeups import Wakeups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    import torch

    from s2s import Seq2Seq, Task
    from s2s.decoding import Hypothesis
    from s2s.generation import LoadedGenerator
    from s2s_serve.request_queue import QueueSearch

T = TypeVar("T")
logger = logging.getLogger(__name__)

WARM_UP = "a"
SHORT = 500
"""Characters that are read or written in less time than another thread takes to begin on a busy core"""


class LoadedModel(NamedTuple):
    """The model as a network of torch."""

    thread: SearchThread
    """The only one that uses it"""
    aligning: Generator | None
    """Writes outputs with aligned words; None: the architecture gives no attention"""


class Engine:
    """Searches and scores for any number of requests; all but `start` and `close` are called in the event loop.

    What the functions of a packed model search needs no torch; the model is loaded when something else is asked for.
    """

    def __init__(
        self, name: str, loaded: LoadedGenerator, n_tokens: int, max_waiting: int, origins: Sequence[object] = ()
    ) -> None:
        """n_tokens: maximum source tokens in the batch. max_waiting: those, over all requests, not yet answered.

        origins: what the models were made of, in words.
        """
        self.name, self.description, self.origins = name, loaded.description, origins
        self.n_tokens, self.max_waiting = n_tokens, max_waiting
        self.generator, self.provenance = loaded.generator, loaded.provenance
        self.task = self.generator.task
        self.n_candidates = cache(lambda nbest: replace(self.generator.config, nbest=nbest).n_candidates)
        """Outputs of the search that are needed for so many of an input"""
        self.n_waiting = 0
        self.rate = 0.0
        """Source tokens per second, a running mean over answers"""
        self.text = ThreadPoolExecutor(1, f"{name}-text")
        """Tokenises and writes what is long"""
        self.n_in_text_thread = 0
        """Functions that it has not finished"""
        self.wakeups = Wakeups()
        self.thread = self._thread("search", self.generator.search.queued)
        """Searches what `generator.search` accepts"""
        self.model: LoadedModel | None = None
        if loaded.aligns is None:
            self.model = LoadedModel(self.thread, self.generator.aligning())
        self.aligns = self.model.aligning is not None if self.model else loaded.aligns
        """Whether words of outputs can be aligned"""
        self.loader = ThreadPoolExecutor(1, f"{name}-loader")
        self.loading: Future[LoadedModel] | None = None

    @property
    def threads(self) -> list[SearchThread]:
        """Those that search."""
        return [self.thread] if self.model is None else list(dict.fromkeys([self.thread, self.model.thread]))

    @property
    def ready(self) -> bool:
        """Whether a sentence has been answered, and no search has failed since."""
        return all(thread.ready for thread in self.threads)

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
        self._start(self.thread)

    def close(self) -> None:
        """Accept no more sentences, and end when the waiting ones are answered."""
        self.loader.shutdown()
        for thread in self.threads:
            thread.close()
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
        ids, start = self.task.vocab.ended(segment.ids), segment.starting_tokens
        source = SourceSentence(0, ids, segment.constraint, starting_tokens=start, align=segment.align)
        is_plain = not align and self.generator.search.accepts(source)
        thread = self.thread if is_plain else (await self._loaded()).thread
        n_candidates = self.n_candidates(nbest)
        hypotheses = await thread.hypotheses(segment, n_candidates)
        if n_candidates == 1:
            hypotheses = hypotheses[:1]  # so that no others are written as text
        search = self.writing(align=align).search
        search = search if is_plain else search.with_model()
        if not search.has_more_to_do(source, hypotheses):
            return hypotheses

        def annotated() -> list[Hypothesis]:
            (result,) = next(search.with_model().after_stages([[SearchResult(0, hypotheses)]], {0: source}))
            return result.hypotheses

        return await thread.call(annotated)

    def writing(self, *, align: bool) -> Generator:
        """The generator that writes outputs, aligned ones if it can; after a search for them."""
        return (self.model.aligning if align and self.model else None) or self.generator

    async def call(self, function: Callable[[Seq2Seq, torch.device], T]) -> T:
        """Run a function of the model and its device between two steps of a search; the model is loaded first."""
        thread = (await self._loaded()).thread
        searcher = self.generator.search.with_model()
        return await thread.call(lambda: function(searcher.model, searcher.device))

    async def _loaded(self) -> LoadedModel:
        """The model, loaded in another thread while requests that do not need it are answered."""
        if self.model:
            return self.model
        try:
            if self.loading is None or self.loading.done():  # without a model: it has failed
                self.loading = self.loader.submit(self._load)
            return await asyncio.shield(asyncio.wrap_future(self.loading))  # one that is cancelled leaves it to others
        except Exception as error:
            raise unavailable("this needs the model itself, which cannot be loaded; the log says why") from error

    def _load(self) -> LoadedModel:
        try:
            thread = self._thread("model", self.generator.search.with_model().queued)
            model = LoadedModel(thread, self.generator.aligning())
            self._start(thread)
        except Exception as error:
            is_bug = not isinstance(error, OSError | UserError)
            logger.error("the model of %s cannot be loaded: %s", self.name, error, exc_info=error if is_bug else None)
            raise
        self.model = model
        return model

    def _thread(self, name: str, search: QueueSearch) -> SearchThread:
        return SearchThread(f"{self.name}-{name}", search, self.n_tokens, self.task.vocab, self.wakeups)

    def _start(self, thread: SearchThread) -> None:
        thread.start(Segment("", self.task.encode_source([warm_up_text(self.task)])[0]))

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


def warm_up_text(task: Task) -> str:
    """A short input; of several kinds of sources, one of the first."""
    tag = task.vocab.tag_ids[:1]
    return (task.source_text(tag) if tag else "") + WARM_UP
