"""A server of a run that has been served before imports no torch until a request needs the model itself."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from harness.small_server import Served, client_of, served, tiny_server, train_run
from harness.tiny_runs import WORDS
from s2s.generation import build
from s2s_cpu.library import native_library
from s2s_cpu.prepacked import has_linear

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

pytestmark = pytest.mark.skipif(not has_linear(), reason=native_library().reason)
LINES = [f"{first} {second} sees" for first in WORDS for second in WORDS]
TEXT = "The old dog sees the cat. The cat eats.\n\nThe dog eats the old cat."
PLAIN: list[tuple[str, Any]] = [
    ("/v1/generate", {"text": LINES, "fields": ["tokens", "pieces", "log_probs"]}),
    ("/v1/generate", {"text": LINES[:5], "nbest": 4, "fields": ["log_probs"]}),
    ("/v1/generate", {"text": TEXT, "split": True, "stream": True}),
    ("/v1/generate", {"text": " \n"}),
    ("/translate", {"q": [TEXT, "a dog"], "source": "en", "target": "de", "alternatives": 2}),
]
OF_MODEL: list[tuple[str, Any]] = [
    ("/translate", {"q": "<p>the <b>old</b> dog sees</p>", "source": "en", "target": "de", "format": "html"}),
    ("/v1/generate", {"text": LINES[:5], "nbest": 2, "fields": ["align", "attention"]}),
    ("/v1/generate", {"text": "the old dog", "prefix": "der"}),
    ("/v1/generate", {"text": "the old dog", "phrases": ["kater"]}),
    ("/v1/score", {"pairs": [{"src": line, "tgt": "der hund"} for line in LINES[:9]]}),
    ("/v1/generate", {"text": "a dog", "terms": {"dog": "kater"}}),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return train_run(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def of_model(run: str) -> Iterator[Served]:
    """The first server of the run, which loads the model."""
    with served(tiny_server(run)) as started:
        assert started.server.engines["en-de"].model
        yield started


@pytest.fixture
def packed(of_model: Served, run: str) -> Iterator[Served]:
    """A later one."""
    with served(tiny_server(run)) as started:
        assert started.server.engines["en-de"].model is None
        yield started


def answers(server: Served, requests: list[tuple[str, Any]]) -> list[bytes]:
    """Of requests that come at once."""

    async def all_of(client: httpx.AsyncClient) -> list[httpx.Response]:
        return await asyncio.gather(*(client.post(path, json=body) for path, body in requests))

    found = server.ask(all_of)
    assert [one.status_code for one in found] == [200] * len(requests)
    return [one.content for one in found]


def test_plain_answers_are_those_of_the_model_and_do_not_load_it(
    of_model: Served, packed: Served, loads: list[str]
) -> None:
    assert answers(packed, PLAIN) == answers(of_model, PLAIN)
    assert packed.server.engines["en-de"].model is None
    assert not loads


def test_scores_have_the_same_bits(of_model: Served, packed: Served) -> None:
    def found(server: Served) -> list[Any]:
        engine = server.server.engines["en-de"]
        ids = [[*engine.task.encode_source([line])[0], engine.task.vocab.eos] for line in LINES]
        return [engine.thread.queue.put(one).result(60) for one in ids]

    assert found(packed) == found(of_model)
    assert packed.server.engines["en-de"].model is None


def test_what_needs_the_model_loads_it_once_and_has_the_same_answers(
    of_model: Served, packed: Served, run: str, loads: list[str]
) -> None:
    both = [*OF_MODEL, *PLAIN]
    assert answers(packed, both) == answers(of_model, both)
    assert packed.server.engines["en-de"].model
    assert answers(packed, both[::-1]) == answers(of_model, both[::-1])
    assert loads == [run]


def test_what_a_client_is_told_of_the_run_is_the_same(of_model: Served, packed: Served) -> None:
    told = [server.ask(lambda client: client.get("/v1/runs")).json() for server in (of_model, packed)]
    assert told[0] == told[1]
    assert told[0]["runs"][0]["align"]


def test_plain_requests_are_answered_while_the_model_is_loaded(
    of_model: Served, packed: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, load = threading.Event(), threading.Event(), build.load_for_decoding

    def slow(*given: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return load(*given)

    monkeypatch.setattr(build, "load_for_decoding", slow)

    async def talk(client: httpx.AsyncClient) -> tuple[list[int], bool, list[int]]:
        waiting = [asyncio.create_task(client.post(path, json=body)) for path, body in OF_MODEL[:5]]
        await asyncio.to_thread(begun.wait, 60)
        waiting[0].cancel()  # a client that goes does not stop it
        plain = [(await client.post(path, json=body)).status_code for path, body in PLAIN]
        plain.append((await client.get("/healthz")).status_code)
        none_is_done = not any(one.done() for one in waiting[1:])
        go_on.set()
        return plain, none_is_done, [(await one).status_code for one in waiting[1:]]

    plain, none_was_done, others = packed.ask(talk)
    assert plain == [200] * 6
    assert none_was_done
    assert others == [200] * 4


def test_a_model_that_cannot_be_loaded_is_a_refusal_and_stops_nothing_else(
    of_model: Served, packed: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def damaged(*_: Any) -> Any:
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(build, "load_for_decoding", damaged)
        for path, body in OF_MODEL[:2]:
            answer = packed.post(path, body)
            assert answer.status_code == 503
            assert "needs the model itself" in str(answer.json()["error"])
    assert "the model of en-de cannot be loaded: the disk is gone" in caplog.text
    assert answers(packed, PLAIN) == answers(of_model, PLAIN)
    assert packed.ask(lambda client: client.get("/healthz")).status_code == 200
    assert answers(packed, OF_MODEL) == answers(of_model, OF_MODEL), "the next request tries again"


def test_a_run_that_has_changed_is_not_mixed_with_the_one_that_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = train_run(tmp_path)
    tiny_server(run)
    with served(tiny_server(run)) as server:
        (Path(run) / "env.json").touch()
        assert server.post(*OF_MODEL[1]).status_code == 503
        assert "has changed since this command began" in caplog.text
        assert server.post(*PLAIN[0]).status_code == 200


def test_a_server_that_ends_while_it_loads_a_model_ends_after_it(
    of_model: Served, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, begun, load = tiny_server(run), threading.Event(), build.load_for_decoding

    def announced(*given: Any) -> Any:
        begun.set()
        return load(*given)

    monkeypatch.setattr(build, "load_for_decoding", announced)
    engine = server.engines["en-de"]

    async def talk() -> None:
        async with client_of(server) as client:
            waiting = asyncio.create_task(client.post("/v1/generate", json=OF_MODEL[1][1]))
            await asyncio.to_thread(begun.wait, 60)
            waiting.cancel()

    asyncio.run(talk())
    assert len(engine.threads) == 2
    assert not any(thread.thread.is_alive() for thread in engine.threads)


def test_plain_requests_need_no_torch_at_all(of_model: Served, run: str) -> None:
    """Where it cannot be imported, a server starts and answers, and says what it cannot do."""
    code = "import sys; sys.modules['torch'] = None; from s2s_serve import command; sys.exit(command.main())"
    arguments = [sys.executable, "-c", code, f"run={{en-de: {run}}}", "port=0"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        lines = list[str]()
        for line in process.stderr:
            lines.append(line)
            if line.startswith("serving"):
                break
        assert "packed model" in "".join(lines)
        connection = http.client.HTTPConnection("127.0.0.1", int(lines[-1].rpartition(":")[2]), timeout=60)

        def post(path: str, body: Any) -> tuple[int, bytes]:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()

        found, (status, _) = [post(path, body) for path, body in PLAIN], post(*OF_MODEL[1])
        connection.close()
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait(60) in (0, -signal.SIGTERM)
    assert found == [(200, content) for content in answers(of_model, PLAIN)]
    assert status == 503
    assert "the model of en-de cannot be loaded: import of torch halted" in said
