"""The server's own API: outputs are those of s2s-generate, alone and among others; refusals are clear."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import warnings
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from harness.small_server import Served, client_of, served, tiny_server, train_run
from harness.tiny_runs import WORDS
from s2s import ConfigError
from s2s.cli import generate, score
from s2s.generation import Segment
from s2s.generation.writing import Writer
from s2s_serve import ServeConfig, command
from s2s_serve.app import create_app
from s2s_serve.body_limit import BodyLimit
from s2s_serve.engine import SHORT
from s2s_serve.errors import Errors
from s2s_serve.generating import lines_of
from s2s_serve.refusal import RefusedError
from s2s_serve.request_queue import QueueClosedError
from s2s_serve.server import _keys

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    import httpx

    Work = Callable[[httpx.AsyncClient], Awaitable[Any]]

TEXT = "The old dog sees the cat. The cat eats.\n\nThe dog eats the old cat."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return train_run(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def server(run: str) -> Iterator[Served]:
    with served(tiny_server(run)) as started:
        yield started


def ask(run: str, work: Work, **options: Any) -> Any:
    """What `work` gives of a client of a new server."""

    async def talk() -> Any:
        async with client_of(tiny_server(run, **options)) as client:
            return await work(client)

    return asyncio.run(talk())


def post(run: str, path: str, body: Any, **options: Any) -> httpx.Response:
    """The answer to one request."""
    found: httpx.Response = ask(run, lambda client: client.post(path, json=body), **options)
    return found


def lines(n: int) -> list[str]:
    """Inputs of many lengths."""
    draw = random.Random(1)
    return [" ".join(draw.choices(list(WORDS), k=draw.randint(1, 9))) for _ in range(n)]


def test_outputs_are_those_of_s2s_generate(server: Served, run: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines(12)))
    arguments = [f"run={run}", f"input={tmp_path}/in.txt", f"output={tmp_path}/out.jsonl", "input_format=text"]
    assert generate.main([*arguments, "format=jsonl", "fields=[align]", "nbest=3", "threads=1", "--quiet"]) == 0
    expected = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    body = {"text": lines(12), "nbest": 3, "fields": ["align"]}
    found = server.post("/v1/generate", body).json()["results"]
    for ours, theirs in zip(found, expected, strict=True):
        assert [(each["hyp"], each["score"]) for each in ours["nbest"]] == [
            (each["hyp"], each["score"]) for each in theirs["nbest"]
        ]
        assert [f"{i}-{j}" for i, j in ours["sentences"][0]["align"]] == theirs["align"]


@pytest.mark.parametrize("nbest", [1, 3])
def test_samples_are_those_of_s2s_generate(run: str, tmp_path: Path, nbest: int) -> None:
    """As many are drawn for a request as it asks for: of more, the most probable would be another output."""
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines(12)))
    arguments = [f"run={run}", f"input={tmp_path}/in.txt", f"output={tmp_path}/out.jsonl", "input_format=text"]
    arguments += ["format=jsonl", f"nbest={nbest}", "search=sample", "threads=1", "--quiet"]
    assert generate.main(arguments) == 0
    expected = [json.loads(line)["hyp"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    body = {"text": lines(12), "nbest": nbest, "split": False}
    found = post(run, "/v1/generate", body, generate={"search": "sample"}).json()["results"]
    assert [each["hyp"] for each in found] == expected


def test_a_text_has_the_lines_that_a_file_with_it_has(server: Served) -> None:
    """Of a file, s2s-generate reads one line: what looks like the end of a line to some programs is white space."""
    (found,) = server.post("/v1/generate", {"text": "a dog\u2028sees\x0ca cat", "split": False}).json()["results"]
    (plain,) = server.post("/v1/generate", {"text": "a dog sees a cat", "split": False}).json()["results"]
    assert found["hyp"] == plain["hyp"]
    assert lines_of("a\r\nb\n\nc\n") == [("", "a", ""), ("\r\n", "b", ""), ("\n", "", ""), ("\n", "c", "\n")]
    assert lines_of("") == [("", "", "")]
    assert lines_of("\n") == [("", "", "\n")]


@pytest.mark.parametrize("symbol", ["", "😀", "—", "•", "#", "* * *", "\u2028"], ids=ascii)
def test_symbols_between_sentences_are_kept_and_no_sentence_is_lost(server: Served, symbol: str) -> None:
    """As by s2s-generate, whose output it is; the model has no full stop, which is copied."""
    gap = f" {symbol} " if symbol else " "
    (found,) = server.post("/v1/generate", {"text": f"The old dog.{gap}The cat eats."}).json()["results"]
    assert [part["src"] for part in found["sentences"]] == ["The old dog", "The cat eats"]
    first, second = (part["hyp"] for part in found["sentences"])
    assert found["hyp"] == f"{first}.{gap}{second}."


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize(
    "text", ["{}\n", "\n", "", "    {}", "{}\n  {}\n", "{}\r\n\r\n\t{}\r\n", " {}\u3000"], ids=ascii
)
def test_white_space_at_the_edges_of_lines_comes_back(server: Served, text: str, split: bool) -> None:
    source = "the old dog"
    (alone,) = server.post("/v1/generate", {"text": source}).json()["results"]
    (whole,) = server.post("/v1/generate", {"text": text.replace("{}", source), "split": split}).json()["results"]
    assert whole["hyp"] == text.replace("{}", alone["hyp"])


def test_a_line_that_is_not_split_but_too_long_is_decoded_in_parts(run: str) -> None:
    text = "The old dog sees the cat. — The cat eats the old dog.\n  The dog eats.\n"
    options: dict[str, Any] = {"generate": {"max_source": 14, "too_long": "split"}}
    (found,) = post(run, "/v1/generate", {"text": text, "split": False}, **options).json()["results"]
    parts = found["sentences"]
    expected = [(0, "The old dog sees the cat"), (0, "The cat eats the old dog"), (1, "The dog eats")]
    assert [(part["line"], part["src"]) for part in parts] == expected
    assert found["hyp"] == "{}. — {}.\n  {}.\n".format(*(part["hyp"] for part in parts))


def test_lines_end_where_unicode_ends_them(server: Served) -> None:
    text = "The dog.\u2028A cat. The dog.\r\n\u2029A cat."
    (found,) = server.post("/v1/generate", {"text": text}).json()["results"]
    assert [part["line"] for part in found["sentences"]] == [0, 1, 1, 3]


def test_an_output_that_the_limit_has_cut_is_marked(server: Served, run: str) -> None:
    body = {"text": "the old dog sees the cat"}
    limit = {"search": {"max_len_a": 0.0, "max_len_b": 1, "min_len": 1}}
    (cut,) = post(run, "/v1/generate", body, generate=limit).json()["results"]
    (whole,) = server.post("/v1/generate", body).json()["results"]
    assert [one.get("finished") for one in (cut, *cut["sentences"])] == [False, False]
    assert [one.get("finished") for one in (whole, *whole["sentences"])] == [None, None]


def test_the_same_request_gives_the_same_bytes_alone_and_in_a_crowd(server: Served) -> None:
    bodies = [{"text": line, "nbest": 1 + i % 3, "fields": ["pieces", "log_probs"]} for i, line in enumerate(lines(24))]
    bodies[5] |= {"prefix": "der"}
    bodies[7] |= {"phrases": ["kater", "hund"]}
    bodies[9] |= {"fields": ["align", "attention"]}

    async def alone(client: httpx.AsyncClient) -> list[bytes]:
        return [(await client.post("/v1/generate", json=body)).content for body in bodies]

    async def crowd(client: httpx.AsyncClient) -> list[bytes]:
        answers = await asyncio.gather(*(client.post("/v1/generate", json=body) for body in bodies[::-1]))
        return [answer.content for answer in answers][::-1]

    assert server.ask(crowd) == server.ask(alone)


def test_a_text_keeps_its_lines_and_is_taken_apart_into_sentences(server: Served) -> None:
    (whole,) = server.post("/v1/generate", {"text": TEXT}).json()["results"]
    assert [(part["line"], part["src"]) for part in whole["sentences"]] == [
        (0, "The old dog sees the cat"),
        (0, "The cat eats"),
        (2, "The dog eats the old cat"),
    ]
    hyps = [part["hyp"] for part in whole["sentences"]]
    assert whole["hyp"] == f"{hyps[0]}. {hyps[1]}.\n\n{hyps[2]}."


def test_sentences_stream_in_order_and_end_with_the_whole(server: Served) -> None:
    body = {"text": [TEXT, "a cat"], "fields": ["align"]}
    plain = server.post("/v1/generate", body).json()
    answer = server.post("/v1/generate", body | {"stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = [block.split("\n") for block in answer.text.removesuffix("\n\n").split("\n\n")]
    events = [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]
    assert [name for name, _ in events] == ["sentence"] * 4 + ["done"]
    assert [(e["text"], e["sentence"], e["of"]) for _, e in events[:-1]] == [*((0, i, 3) for i in range(3)), (1, 0, 1)]
    assert events[-1][1] == plain


def test_attention_is_a_distribution_over_the_source(server: Served) -> None:
    (whole,) = server.post("/v1/generate", {"text": "the old dog", "fields": ["attention", "pieces"]}).json()["results"]
    (sentence,) = whole["sentences"]
    attention = sentence["attention"]
    assert attention["tgt"] == sentence["pieces"]
    assert [len(row) for row in attention["weights"]] == [len(attention["src"])] * len(attention["tgt"])
    assert all(0 <= w <= 1 for row in attention["weights"] for w in row)
    assert all(sum(row) <= 1.001 for row in attention["weights"]), "the end of the source may have the rest"


def test_scores_are_those_of_s2s_score(
    server: Served, run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [{"src": line, "tgt": " ".join(WORDS[w] for w in line.split())} for line in lines(10)]
    for side in ("src", "tgt"):
        (tmp_path / side).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    arguments = [f"model={run}", f"src={tmp_path}/src", f"ref={tmp_path}/tgt", "format=json", "--per-sentence"]
    assert score.main(arguments) == 0
    said = json.loads(capsys.readouterr().out)
    expected = next(iter(said["scores"]))["sentences"]
    found = server.post("/v1/score", {"pairs": pairs}).json()["scores"]
    assert [each["log_prob"] for each in found] == pytest.approx([each["log_prob"] for each in expected], abs=2e-3)
    assert [each["pieces"] for each in found] == [each["pieces"] for each in expected]


BAD: dict[str, tuple[Any, int, str]] = {
    "no text": ({}, 422, "text: Field required"),
    "unknown field": ({"text": "a", "beam": 4}, 422, "beam: Extra inputs"),
    "a number for text": ({"text": 5}, 422, "text: Input should be a valid string"),
    "a number in a list of texts": ({"text": ["a", 5]}, 422, "text: Input should be a valid string"),
    "no texts": ({"text": []}, 422, "no texts"),
    "too many outputs": ({"text": "a", "nbest": 9}, 422, "nbest: 9 are more than the 4"),
    "unknown run": ({"text": "a", "run": "../x"}, 422, "run: no such run here; there are en-de"),
    "unknown view": ({"text": "a", "views": ["svg"]}, 422, "views"),
    "prefix of two lines": ({"text": "a\nb", "prefix": "der", "split": False}, 422, "one line"),
    "half a character": ({"text": "\ud800"}, 422, "surrogate"),
    "too long": ({"text": "a " * 15_000}, 413, "30,000 characters are more than the 20,000"),
    "no time": ({"text": "the old dog", "deadline": 1e-9}, 503, "not finished within"),
    "a list": ([], 422, "JSON object"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_done_is_said_clearly(server: Served, case: str) -> None:
    body, status, message = BAD[case]
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    answer = server.ask(lambda client: client.post("/v1/generate", content=content, headers=headers))
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


def test_a_key_twice_is_refused(server: Served) -> None:
    headers = {"content-type": "application/json"}
    body = b'{"q": "a", "text": "a", "text": "b", "q": "b"}'
    own, libre = (
        server.ask(lambda client, path=path: client.post(path, content=body, headers=headers))
        for path in ("/v1/generate", "/translate")
    )
    assert own.status_code == 422
    assert own.json()["error"]["message"] == "the body is no JSON: 'q' occurs twice in one object"
    assert libre.status_code == 400
    assert libre.json()["error"] == "Invalid request: 'q' occurs twice in one object"


def test_broken_bodies_end_nothing(server: Served) -> None:
    draw = random.Random(1)
    whole = json.dumps({"text": "the old dog", "nbest": 2, "fields": ["align"]}).encode()

    def broken() -> bytes:
        cut = bytearray(whole[: draw.randrange(len(whole))])
        for _ in range(draw.randrange(4)):
            cut.insert(draw.randrange(len(cut) + 1), draw.randrange(256))
        return bytes(cut)

    async def talk(client: httpx.AsyncClient) -> list[int]:
        headers = {"content-type": "application/json"}
        statuses = []
        for path in itertools.islice(itertools.cycle(["/v1/generate", "/v1/score", "/translate", "/v1/parse"]), 200):
            statuses.append((await client.post(path, content=broken(), headers=headers)).status_code)
        deep = await client.post("/v1/generate", content=b"[" * 100_000, headers=headers)
        return [*statuses, deep.status_code, (await client.post("/v1/generate", json={"text": "a"})).status_code]

    *bad, good = server.ask(talk)
    assert set(bad) <= {400, 422}
    assert good == 200


@pytest.mark.parametrize("length", [b"1001", b"9" * 20, b"0" * 20 + b"1001", b"9" * 5000])
def test_a_length_that_is_too_long_is_refused_before_the_body_comes(length: bytes) -> None:
    """Whatever its digits; nothing is received, which would raise."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/generate", "headers": [(b"content-length", length)]}
    asyncio.run(BodyLimit(None, Errors([]), 1000, 1000)(scope, None, send))
    assert sent[0]["status"] == 413


def test_a_body_is_refused_before_it_is_held(server: Served) -> None:
    async def endless() -> Any:
        for _ in range(100):
            yield b" " * 10_000

    headers = {"content-type": "application/json"}
    answer = server.ask(lambda client: client.post("/v1/generate", content=endless(), headers=headers))
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"


def test_more_than_may_wait_is_refused_with_the_time_to_wait(run: str) -> None:
    async def talk(client: httpx.AsyncClient) -> Any:
        many = [client.post("/v1/generate", json={"text": line}) for line in lines(20)]
        return await asyncio.gather(*many)

    answers = ask(run, talk, max_waiting=30)
    assert {answer.status_code for answer in answers} == {200, 429}
    assert all(int(a.headers["retry-after"]) >= 1 for a in answers if a.status_code == 429)
    assert {answer.status_code for answer in ask(run, talk, max_requests=3)} == {200, 429}
    assert post(run, "/v1/generate", {"text": "a dog " * 20}, max_waiting=10).status_code == 413


def test_a_refused_request_leaves_no_work_behind(run: str) -> None:
    server = tiny_server(run, max_requests=1)

    async def refused() -> None:
        async with server.working():
            with pytest.raises(RefusedError, match="1 requests are worked on already"):
                await server.outputs("a dog")

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(refused())
        gc.collect()
    assert not [one for one in warned if "never awaited" in str(one.message)]


def test_long_outputs_are_written_outside_of_the_event_loop(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """And pieces only where a request asks for them."""
    engine = server.server.engines["en-de"]
    joined, pieces = [], []

    def join(*args: Any) -> Any:
        joined.append(threading.current_thread().name)
        return Writer.join_segments(engine.generator.write, *args)

    def readable(ids: Any, src: str) -> list[str]:
        pieces.append(src)
        return type(engine.task).pieces(engine.task, ids, src)

    monkeypatch.setattr(engine.generator.write, "join_segments", join)
    monkeypatch.setattr(engine.task, "pieces", readable)
    server.post("/v1/generate", {"text": TEXT})
    server.post("/v1/generate", {"text": "a cat " * 100})
    assert (len(joined), pieces) == (2, [])
    assert [name.startswith("en-de-text") for name in joined] == [False, True]
    server.post("/v1/generate", {"text": "a cat", "fields": ["pieces"]})
    assert pieces == ["a cat"]


def test_no_two_functions_use_the_tokeniser_at_once(server: Served) -> None:
    """A short text, too, waits for the text thread while that works on a long one."""
    engine = server.server.engines["en-de"]

    async def names() -> list[str]:
        go_on, name = threading.Event(), lambda: threading.current_thread().name
        long = asyncio.create_task(engine.process_text(lambda: (go_on.wait(10), name())[1], SHORT + 1))
        await asyncio.sleep(0)
        short = asyncio.create_task(engine.process_text(name, 1))
        await asyncio.sleep(0)
        go_on.set()
        during = [await long, await short]
        await asyncio.sleep(0)
        return [*during, await engine.process_text(name, 1)]

    during_long, during_short, after = asyncio.run(names())
    assert during_long == during_short != after


def test_a_client_that_goes_takes_its_sentences_out_of_the_batch(run: str) -> None:
    """The disconnection comes while the sentences are searched; nothing of them is left afterwards."""
    server = tiny_server(run)
    body = json.dumps({"text": [" ".join(["the old dog"] * 60)] * 8, "split": False}).encode()
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        if messages:
            return messages.pop()
        while not server.engines["en-de"].n_waiting:
            await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def talk() -> None:
        app = create_app(server)
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/generate",
            "query_string": b"",
            "http_version": "1.1",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }
        async with app.router.lifespan_context(app):
            await app(scope, receive, send)
            engine = server.engines["en-de"]
            assert engine.n_waiting == 0
            assert (await engine.thread.call(lambda: None)) is None, "the search goes on"

    asyncio.run(talk())
    assert sent[0]["status"] == 499
    cancelled = server.metrics.registry.get_sample_value("s2s_requests_cancelled_total", {"route": "/v1/generate"})
    assert cancelled == 1
    assert server.metrics.n_running == 0


def test_a_search_that_fails_is_answered_and_begins_anew(run: str) -> None:
    server = tiny_server(run)
    engine = server.engines["en-de"]

    def failing() -> set[int]:
        raise RuntimeError("out of order")

    async def talk() -> tuple[httpx.Response, int, httpx.Response, int]:
        async with client_of(server) as client:
            engine.thread.queue.take_cancelled = failing  # type: ignore[method-assign]  # called between steps
            bad = await client.post("/v1/generate", json={"text": "a dog"})
            unwell = (await client.get("/healthz")).status_code
            good = await client.post("/v1/generate", json={"text": "a dog"})
            return bad, unwell, good, (await client.get("/healthz")).status_code

    bad, unwell, good, well = asyncio.run(talk())
    assert (bad.status_code, unwell, good.status_code, well) == (503, 503, 200, 200)
    assert bad.json()["error"]["code"] == "unavailable"
    assert "retry-after" in bad.headers


def test_a_search_that_fails_while_the_server_ends_ends_with_it(run: str) -> None:
    engine = tiny_server(run).engines["en-de"]
    engine.start()
    thread = engine.thread

    def failing() -> set[int]:
        thread.closing = True
        raise RuntimeError("out of order")

    thread.queue.take_cancelled = failing  # type: ignore[method-assign]  # called between steps
    answer = thread.queue.put([4, engine.task.vocab.eos])
    with pytest.raises(RuntimeError, match="out of order"):
        answer.result(10)
    thread.thread.join(10)
    assert not thread.thread.is_alive()
    assert not engine.ready
    with pytest.raises(QueueClosedError):
        thread.queue.put([4])
    engine.close()


def test_what_cannot_begin_to_search_is_answered_too(run: str) -> None:
    engine = tiny_server(run).engines["en-de"]
    thread = engine.thread

    def no_request(_: Any) -> Any:
        thread.closing = True
        raise RuntimeError("out of memory")

    thread.search = no_request
    answer = thread.queue.put([4, engine.task.vocab.eos])
    thread.thread.start()
    with pytest.raises(RuntimeError, match="out of memory"):
        answer.result(10)
    engine.close()


def test_a_sentence_goes_to_the_next_queue_where_its_own_has_just_failed(run: str) -> None:
    thread = tiny_server(run).engines["en-de"].thread
    failed = thread.queue

    def fails_now(*_: Any, **__: Any) -> Any:
        thread.queue = type(failed)(10)
        raise QueueClosedError

    failed.put = fails_now  # type: ignore[method-assign]
    thread.put(Segment("", [4]))
    assert len(thread.queue.admit(0)) == 1


def test_a_key_is_asked_for_where_there_are_keys(run: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("first\nsecond\n")

    async def talk(client: httpx.AsyncClient) -> list[int]:
        body = {"text": "a dog"}
        tries = [{}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer second"}, {"x-api-key": "first"}]
        statuses = [(await client.post("/v1/generate", json=body, headers=headers)).status_code for headers in tries]
        of_old = [{}, {"api_key": "wrong"}, {"api_key": "first"}]
        query = {"q": "a dog", "source": "en", "target": "de"}
        statuses += [(await client.post("/translate", json=query | key)).status_code for key in of_old]
        return [*statuses, (await client.get("/metrics")).status_code, (await client.get("/healthz")).status_code]

    expected = [401, 401, 200, 200, 400, 403, 200, 401, 200]
    assert ask(run, talk, key_file=str(tmp_path / "keys")) == expected


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "latin-1", "empty"])
def test_a_file_of_keys_that_is_none_is_one_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "keys"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "missing":
        path.write_bytes({"latin-1": b"schl\xfcssel\n", "empty": b"\n \n"}[kind])
    with pytest.raises(ConfigError, match=rf"^key_file={path} (cannot be read|is not|holds no key)"):
        _keys(str(path))


def test_other_origins_are_allowed_only_where_they_are_named(run: str) -> None:
    headers = {"origin": "https://example.org", "access-control-request-method": "POST"}
    of = lambda **options: ask(run, lambda client: client.options("/v1/generate", headers=headers), **options)  # noqa: E731
    assert "access-control-allow-origin" not in of().headers
    assert of(cors=["https://example.org"]).headers["access-control-allow-origin"] == "https://example.org"


def test_metrics_count_requests_and_name_no_client(run: str) -> None:
    async def talk(client: httpx.AsyncClient) -> str:
        await client.post("/v1/generate", json={"text": "a dog"}, headers={"x-api-key": "secret"})
        await client.post("/v1/generate", json={})
        return (await client.get("/metrics")).text

    said = ask(run, talk)
    assert 's2s_requests_total{route="/v1/generate",status="200"} 1.0\n' in said
    assert 's2s_requests_total{route="/v1/generate",status="422"} 1.0\n' in said
    assert 's2s_time_to_first_sentence_seconds_count{run="en-de"} 1.0\n' in said
    assert "s2s_process_resident_memory_bytes" in said
    assert "secret" not in said
    assert "127.0.0.1" not in said


def test_openapi_describes_every_route(server: Served) -> None:
    paths = server.ask(lambda client: client.get("/openapi.json")).json()["paths"]
    assert {"/v1/generate", "/v1/score", "/v1/parse", "/v1/jobs", "/translate", "/languages", "/detect"} <= set(paths)
    assert {"/healthz", "/metrics", "/v1/runs"} <= set(paths)


@pytest.mark.parametrize("module", ["py3langid", "prometheus_client"])
def test_a_part_of_the_extra_that_is_missing_is_named(run: str, module: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from s2s_serve import command; sys.exit(command.main())"
    process = subprocess.run(
        [sys.executable, "-c", code, f"run={run}", "port=0", "--quiet"], capture_output=True, text=True, timeout=60
    )
    message = f"s2s-serve: error: s2s-serve needs {module}: pip install {module} (extra serve)"
    assert (process.returncode, process.stderr.splitlines()[-1]) == (2, message)
    assert "Traceback" not in process.stderr


def test_a_signal_before_the_first_request_can_be_answered_ends_the_server(run: str) -> None:
    code = """if True:
        import signal, sys
        from s2s_serve import command
        listen = command._listen
        command._listen = lambda config: (signal.raise_signal(signal.SIGTERM), listen(config))[1]
        sys.exit(command.main())
    """
    process = subprocess.run([sys.executable, "-c", code, f"run={run}", "port=0", "--quiet"], timeout=60, check=False)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("generate", "n_tokens"), [({}, 256), ({"tokens": 2000}, 2000), ({"tokens": 100}, 100)], ids=str
)
def test_a_batch_has_as_many_tokens_as_are_given_or_few(run: str, generate: dict[str, int], n_tokens: int) -> None:
    (engine,) = tiny_server(run, generate=generate).engines.values()
    assert engine.thread.queue.n_tokens == n_tokens


@pytest.mark.parametrize(("option", "reason"), [("workers", "has one process"), ("threads", "searches in one thread")])
def test_a_server_is_one_process_and_searches_in_one_thread(run: str, option: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"^generate.{option}=2: a server {reason}; leave it out$"):
        tiny_server(run, generate={option: 2})


@pytest.mark.parametrize(
    ("search", "nbest"),
    [({"beam": 1}, 1), ({"beam": 3}, 3), ({"beam": 8}, 4), ("greedy", 1), ("sample", 4)],
    ids=str,
)
def test_by_default_there_are_four_outputs_or_as_many_as_the_beam_finds(run: str, search: Any, nbest: int) -> None:
    (engine,) = tiny_server(run, generate={"search": search}).engines.values()
    assert engine.nbest == nbest


def test_a_server_with_a_narrow_beam_answers(run: str) -> None:
    async def talk() -> tuple[Any, Any, Any]:
        async with client_of(tiny_server(run, generate={"search": "greedy"})) as client:
            answer = await client.post("/v1/generate", json={"text": "the old dog"})
            refused = await client.post("/v1/generate", json={"text": "the old dog", "nbest": 2})
            return answer, refused, await client.get("/v1/runs")

    answer, refused, runs = asyncio.run(talk())
    assert answer.json()["results"][0]["src"] == "the old dog"
    assert refused.json()["error"]["message"] == "nbest: 2 are more than the 1 that en-de gives"
    assert runs.json()["runs"][0]["nbest"] == 1


@pytest.mark.parametrize(
    ("options", "beam"),
    [(["generate.search.beam=2"], "2 (search=beam)"), (["generate.search=greedy"], "1 (search=greedy)")],
)
def test_more_outputs_than_the_beam_finds_are_refused(
    run: str, capfd: pytest.CaptureFixture[str], options: list[str], beam: str
) -> None:
    assert command.main([f"run={{x: {run}}}", "nbest=3", "port=0", *options]) == 2
    message = f"nbest=3 is more than the beam of x, which is {beam}; give a smaller nbest, or generate.search=beam "
    assert capfd.readouterr().err == f"s2s-serve: error: {message}generate.search.beam=3\n"


@pytest.mark.parametrize(("given", "meant"), [("prot", "port"), ("max_char", "max_chars"), ("keyfile", "key_file")])
def test_a_misspelled_option_of_the_server_is_not_looked_for_among_those_of_generation(
    run: str, capfd: pytest.CaptureFixture[str], given: str, meant: str
) -> None:
    assert command.main([f"run={run}", f"{given}=5"]) == 2
    assert capfd.readouterr().err == f"s2s-serve: error: {given}: no such option. Did you mean '{meant}'?\n"


def test_of_an_option_that_is_like_none_the_server_names_its_own(run: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert command.main([f"run={run}", "zzzz=1"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("s2s-serve: error: zzzz: no such option. Of the server there are apis, client_rate, ")
    assert all(item.name in line for item in fields(ServeConfig))
    assert line.endswith("; all others are options of s2s-generate: s2s-generate --help")


def test_an_option_that_is_like_one_of_generation_is_suggested(run: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert command.main([f"run={run}", "serach.beam=1"]) == 2
    assert capfd.readouterr().err == "s2s-serve: error: serach: no such option. Did you mean 'search'?\n"


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("output", "a server reads and writes no files; leave it out"),
        ("shard", "a server reads and writes no files; leave it out"),
        ("raw", "every request has its own; leave it out"),
        ("nbest", "give nbest, without generate"),
    ],
)
def test_an_option_that_means_nothing_to_a_server_is_refused(option: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"^generate.{option}=2: {reason}$"):
        tiny_server("x", generate={option: 2})
