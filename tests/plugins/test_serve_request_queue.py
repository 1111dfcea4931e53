"""Sentences that join a running search get the same outputs as alone, and their callers get the outcome."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.recurrent_model import Recurrent
from harness.search_calls import find_queued
from harness.table_model import Table
from harness.token_wishes import Wish
from s2s.backend.linear import prepack
from s2s.decoding import BeamConfig, Hypothesis, SampleConfig, SearchRequest, SearchResult, SourceSentence
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue, SentenceQueue
from s2s.task import Vocab
from s2s_cpu.library import native_library
from s2s_cpu.prepacked import has_linear
from s2s_search import DiverseBeamConfig
from s2s_search.diverse import build_beam_search
from s2s_search.sampling import Sampling
from s2s_serve.request_queue import MAX_STEPS, QueueClosedError, RequestQueue, StepPacer, serve
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from s2s.decoding import Search
    from s2s.model import Seq2Seq, State

VOCAB, EOS = Vocab(src=9, tgt=9), 3
SECONDS = 60  # after which a test gives up
LEXICAL = [
    *[None] * 5,
    Wish(prefix=(4, 5)).constraint(VOCAB.tgt),
    Wish(phrases=((6,), (7, 8, 4))).constraint(VOCAB.tgt),
    Wish(prefix=(8,), phrases=((4, 4), (5,), (6,))).constraint(VOCAB.tgt),
]
SEARCHES: dict[str, Search] = {
    "beam": BeamSearch(BeamConfig(beam=4, max_len_b=5)),
    "diverse": build_beam_search(DiverseBeamConfig(beam=4, num_beam_groups=2, max_len_b=5)),
    "sampling": Sampling(SampleConfig(max_len_b=5)),
}


class Server:
    """A search in a thread of its own."""

    def __init__(self, search: Search, model: Seq2Seq, nbest: int = 1, **options: Any) -> None:
        self.queue = RequestQueue(**{"n_tokens": 40, **options})
        self.request = SearchRequest(
            model=model, vocab=VOCAB, queue=self.queue, device=torch.device("cpu"), nbest=nbest
        )
        self.thread = threading.Thread(target=serve, args=(self.queue, lambda _: search(self.request)), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.queue.close()
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()


def simple(hypotheses: list[Hypothesis]) -> list[tuple[list[int], float]]:
    return [(h.tokens, pytest.approx(h.score, rel=1e-4)) for h in hypotheses]


def transformer() -> Transformer:
    """Its states join."""
    torch.manual_seed(1)
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return Transformer(TransformerConfig(share_embeddings="none", **sizes), VOCAB).eval()


def packed() -> Transformer:
    """Where there are functions in C, its sentences without a constraint join a stream."""
    if not has_linear():
        pytest.skip(native_library().reason)
    model = transformer()
    prepack(model, "native", "none")
    assert model.stream_search()
    return model


@pytest.mark.parametrize("make", [lambda: Recurrent(9), transformer, packed], ids=["waits", "joins", "stream"])
@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.usefixtures("plugin_operators")
def test_sentences_that_come_at_random_moments_get_what_a_batch_gets(kind: str, make: Callable[[], Seq2Seq]) -> None:
    """Two threads put them, some with constraints that the running batch does not have."""
    draw, search, model = random.Random(kind), SEARCHES[kind], make()
    lines = [[*draw.choices(range(4, 9), k=draw.randint(1, 9)), EOS] for _ in range(24)]
    wanted = [draw.choice(LEXICAL) for _ in lines]
    sentences = [SourceSentence(i, line, one) for i, (line, one) in enumerate(zip(lines, wanted, strict=True))]
    expected = map(simple, find_queued(search, model, FixedQueue(sentences, 1000), VOCAB, nbest=4))
    server, futures = Server(search, model, nbest=4), dict[int, Future[list[Hypothesis]]]()

    def feed(share: list[SourceSentence]) -> None:
        moments = random.Random(len(share))
        for sentence in share:
            time.sleep(moments.choice([0, 0, 0.002, 0.01]))
            futures[sentence.index] = server.queue.put(sentence.ids, sentence.constraint)

    threads = [threading.Thread(target=feed, args=(sentences[i::2],)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [futures[i].result(SECONDS) for i in range(len(lines))]
    server.close()
    for own, alone in zip(found, expected, strict=True):
        assert [(h.tokens, h.score) for h in own] == alone


class Gated(Recurrent):
    """Waits before every step until the test allows it."""

    def __init__(self) -> None:
        super().__init__(9)
        self.gate, self.n_steps = threading.Semaphore(0), 0

    def step(self, token: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        assert self.gate.acquire(timeout=SECONDS)
        self.n_steps += 1
        logits, state = super().step(token, state)
        return logits.index_fill(-1, torch.tensor([EOS]), -30.0), state  # to the limit

    def open(self) -> None:
        self.gate.release(10_000)


LONG = BeamSearch(BeamConfig(beam=2, max_len_a=30.0, max_len_b=0))


def test_a_result_is_known_while_others_are_searched() -> None:
    model = Gated()
    server = Server(LONG, model)
    long, short = server.queue.put([4, 5, 6, 7, EOS]), server.queue.put([4, EOS])
    model.gate.release(80)
    assert short.result(SECONDS)
    assert not long.done()
    model.open()
    assert long.result(SECONDS)
    server.close()


def test_a_closed_queue_ends_the_search_when_all_is_answered() -> None:
    server = Server(SEARCHES["beam"], Recurrent(9))
    futures = [server.queue.put([4, 5, EOS]) for _ in range(5)]
    server.close()
    assert all(future.result(0) for future in futures)
    with pytest.raises(QueueClosedError):
        server.queue.put([4, EOS])
    Server(SEARCHES["beam"], Recurrent(9)).close()


def test_an_error_of_the_search_reaches_every_caller() -> None:
    class Broken(Recurrent):
        def step(self, *_: Any) -> Any:
            raise RuntimeError("out of order")

    queue, model = RequestQueue(n_tokens=40), Broken(9)
    futures = [queue.put([4] * 50 + [EOS]) for _ in range(3)]  # one in the batch, two wait
    request = SearchRequest(model=model, vocab=VOCAB, queue=queue, device=torch.device("cpu"))
    with pytest.raises(RuntimeError, match="out of order"):
        serve(queue, lambda _: SEARCHES["beam"](request))
    for future in futures:
        with pytest.raises(RuntimeError, match="out of order"):
            future.result(0)
    with pytest.raises(QueueClosedError):
        queue.put([4, EOS])


def test_who_serves_hears_of_an_error_before_those_who_wait() -> None:
    def broken(_: SentenceQueue) -> Iterator[list[SearchResult]]:
        raise RuntimeError("out of order")

    queue, heard = RequestQueue(n_tokens=40), list[str]()
    queue.put([4, EOS]).add_done_callback(lambda future: heard.append(str(future.exception())))
    with pytest.raises(RuntimeError, match="out of order"):
        serve(queue, broken, lambda: heard.append("who serves"))
    assert heard == ["who serves", "out of order"]


def test_a_search_that_leaves_a_sentence_out_is_found_out() -> None:
    def forgetful(request: SearchRequest) -> Iterator[list[SearchResult]]:
        yield [SearchResult(s.index, []) for batch in request.batches() for s in batch.sentences if s.index % 2]

    server = Server(forgetful, Table(9))
    first, second = server.queue.put([4, EOS]), server.queue.put([4, EOS])
    server.close()
    assert second.result(0) == []
    with pytest.raises(QueueClosedError, match="without a result"):
        first.result(0)


def test_as_many_steps_are_taken_at_once_as_fit_into_a_turn() -> None:
    """A step takes 3 ms: four of them are more than half of a turn, and less than a whole one."""
    pacer = StepPacer()
    tried = []
    for _ in range(12):
        tried.append(pacer.n_steps)
        pacer.begin(0.0)
        pacer.end(0.003 * pacer.n_steps)
    assert tried[:3] == [1, 2, 4]
    assert set(tried[3:]) == {4}
    pacer.begin(0.0)
    pacer.end(1.0)
    assert pacer.n_steps == 2, "a batch that has become slow"
    pacer.end(2.0)
    assert pacer.n_steps == 2, "asked again before other steps"
    for _ in range(9):
        pacer.begin(0.0)
        pacer.end(0.0)
    assert pacer.n_steps == MAX_STEPS


def test_an_idle_search_uses_no_processor_time() -> None:
    server = Server(SEARCHES["beam"], Recurrent(9))
    server.queue.put([4, EOS]).result(SECONDS)
    clock = time.pthread_getcpuclockid(server.thread.ident or 0)
    time.sleep(0.05)
    begun = time.clock_gettime(clock)
    time.sleep(0.4)
    assert time.clock_gettime(clock) - begun < 0.01
    server.close()


def test_a_cancelled_sentence_leaves_the_queue_or_the_batch() -> None:
    model = Gated()
    server = Server(LONG, model, n_tokens=10)
    running, other = server.queue.put([4, 5, 6, 7, EOS]), server.queue.put([5, EOS])
    model.gate.release(3)
    while model.n_steps < 3:
        time.sleep(0.001)
    waiting = server.queue.put([4] * 9 + [EOS])
    assert running.cancel()
    assert waiting.cancel()
    model.open()
    assert other.result(SECONDS)
    server.close()
    assert model.n_steps < 80, "the limit of the cancelled is 120 and more"
    with pytest.raises(CancelledError):
        running.result(0)
    assert not other.cancel()


@pytest.mark.parametrize("kind", SEARCHES)
def test_cancelling_at_random_moments_changes_no_other_result(kind: str) -> None:
    model, search, draw = Recurrent(9), SEARCHES[kind], random.Random(kind)
    lines = [[*draw.choices(range(4, 9), k=draw.randint(1, 9)), EOS] for _ in range(30)]
    queue = FixedQueue([SourceSentence(i, line) for i, line in enumerate(lines)], 1000)
    expected = map(simple, find_queued(search, model, queue, VOCAB, nbest=2))
    server = Server(search, model, nbest=2)
    futures = [server.queue.put(line) for line in lines]
    for _ in range(15):
        time.sleep(draw.choice([0, 0.001, 0.004]))
        draw.choice(futures).cancel()
    server.close()
    assert 0 < sum(future.cancelled() for future in futures) < len(futures)
    for future, own in zip(futures, expected, strict=True):
        if not future.cancelled():
            assert [(h.tokens, h.score) for h in future.result(0)] == own


def test_coroutines_wait_for_results() -> None:
    server = Server(SEARCHES["beam"], Recurrent(9))

    async def ask(line: list[int]) -> list[Hypothesis]:
        return await asyncio.wrap_future(server.queue.put(line))

    async def all_of(lines: list[list[int]]) -> list[list[Hypothesis]]:
        return list(await asyncio.gather(*map(ask, lines)))

    lines = [[4 + i % 5, 5, EOS] for i in range(10)]
    found = asyncio.run(all_of(lines))
    server.close()
    queue = FixedQueue([SourceSentence(i, line) for i, line in enumerate(lines)], 1000)
    expected = find_queued(SEARCHES["beam"], Recurrent(9), queue, VOCAB)
    assert [[h.tokens for h in row] for row in found] == [[h.tokens for h in row] for row in expected]


def test_a_call_runs_in_the_thread_of_the_search_between_its_steps() -> None:
    model = Gated()
    server = Server(LONG, model)
    assert server.queue.call(threading.get_ident).result(SECONDS) == server.thread.ident, "while it is idle"
    sentence = server.queue.put([4, 5, 6, EOS])
    seen = server.queue.call(lambda: model.n_steps)
    model.gate.release(5)
    assert seen.result(SECONDS) <= 5
    assert not sentence.done(), "a call does not wait for the sentences in the batch"
    model.open()
    assert sentence.result(SECONDS)
    server.close()
    with pytest.raises(QueueClosedError):
        server.queue.call(threading.get_ident)


def test_an_error_of_a_call_reaches_its_caller_alone() -> None:
    server = Server(SEARCHES["beam"], Recurrent(9))

    def fail() -> None:
        raise ValueError("of this call")

    failed, sentence = server.queue.call(fail), server.queue.put([4, EOS])
    with pytest.raises(ValueError, match="of this call"):
        failed.result(SECONDS)
    assert sentence.result(SECONDS)
    server.close()
