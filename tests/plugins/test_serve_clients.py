"""Clients that are slow, disconnect, or ask too much, at a server on the loopback."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import logging
import socket
import time
from contextlib import closing, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from harness.small_server import client_of, listening, listening_app, tiny_server, train_run
from s2s_serve import ServeConfig, protocol
from s2s_serve.client_limit import ClientLimit
from s2s_serve.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

PATIENCE = 0.5
"""Seconds that a client has"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return train_run(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def port(run: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a server with little patience."""
    jobs = str(tmp_path_factory.mktemp("jobs"))
    server = tiny_server(run, jobs=jobs, client_timeout=PATIENCE, max_chars=1_000_000)
    with listening(server) as address:
        yield port_of(address)


def port_of(address: str) -> int:
    return int(address.rstrip("/").rpartition(":")[2])


def head(path: str, n_bytes: int = 0, method: str = "POST") -> bytes:
    """The head of a request with a body of so many bytes."""
    kind = "content-type: application/json\r\n"
    return f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{kind}content-length: {n_bytes}\r\n\r\n".encode()


def connect(port: int) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", port), timeout=20)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return found


def answer_to_drops(port: int, first: bytes, drop: bytes, seconds: float) -> bytes:
    """What the server sends until it closes, to a client that sends a little, then a drop every 50 ms."""
    with connect(port) as client:
        client.sendall(first)
        client.settimeout(0.05)
        found, until = b"", time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                if not (data := client.recv(4096)):
                    return found
                found += data
            except TimeoutError:
                with suppress(ConnectionError):  # closed meanwhile: what was sent before is still read
                    client.send(drop)
            except ConnectionResetError:
                return found
    raise AssertionError(f"not closed within {seconds} s")


@pytest.mark.parametrize("first", [b"", b"POST /v1/generate HTTP/1.1\r\nhost: localhost\r\n"], ids=["nothing", "some"])
def test_a_head_that_does_not_arrive_is_not_waited_for(port: int, first: bytes) -> None:
    assert b"408 Request Timeout" in answer_to_drops(port, first, b"a: b\r\n" if first else b"", 20 * PATIENCE)


@pytest.mark.parametrize("path", ["/v1/generate", "/v1/jobs", "/translate", "/v1/documents?format=html"])
def test_a_body_that_arrives_in_drops_is_not_waited_for(port: int, path: str) -> None:
    found = answer_to_drops(port, head(path, 100_000), b"a", 20 * PATIENCE)
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b"the request has arrived too slowly: 500 bytes a second, within 0.5 s" in found


def test_a_body_that_stops_is_not_waited_for(port: int) -> None:
    found = answer_to_drops(port, head("/v1/jobs", 1_000_000) + b"the old dog\n" * 50_000, b"a", 20 * PATIENCE)
    assert found.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_is_not_needed_is_not_waited_for(port: int) -> None:
    assert answer_to_drops(port, head("/v1/nothing", 100_000), b"a" * 100, 20 * PATIENCE).startswith(b"HTTP/1.1 404 ")


def test_a_head_after_an_answer_is_not_waited_for_either(port: int) -> None:
    whole = head("/healthz", method="GET")
    assert answer_to_drops(port, whole + b"GET / HTTP/1.1\r\n", b"a: b\r\n", 20 * PATIENCE).startswith(b"HTTP/1.1 200 ")


def test_a_body_that_arrives_fast_enough_may_take_longer(port: int) -> None:
    body = json.dumps({"text": "the old dog", "prefix": " " * 6000}).encode()
    with connect(port) as client:
        client.sendall(head("/v1/generate", len(body)))
        for first in range(0, len(body), 1000):
            time.sleep(0.3)  # 2 s in all, of 0.5 + 6
            client.sendall(body[first : first + 1000])
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")


def running(port: int) -> float:
    """The requests that are worked on, by /metrics."""
    with closing(http.client.HTTPConnection("localhost", port)) as connection:
        connection.request("GET", "/metrics")
        said = connection.getresponse().read().decode()
    return float(said.partition("\ns2s_num_requests_running ")[2].partition("\n")[0])


def counted(port: int) -> dict[str, float]:
    """The answers so far, by status."""
    with closing(http.client.HTTPConnection("localhost", port)) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    found: dict[str, float] = {}
    for line in lines:
        if line.startswith("s2s_requests_total{"):
            status = line.partition('status="')[2].partition('"')[0]
            found[status] = found.get(status, 0) + float(line.rpartition(" ")[2])
    return found


LONG = 40_000_000
"""Bytes of an answer: more than sockets keep"""


async def long_answer(scope: Any, receive: Any, send: Any) -> None:
    """An application whose answer is long, in one part or in many."""
    size = LONG if scope["path"] == "/whole" else 100_000
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for first in range(0, LONG, size):
        await send({"type": "http.response.body", "body": b"a" * size, "more_body": first + size < LONG})


@pytest.fixture(scope="module")
def long_port() -> Iterator[int]:
    """Of a server with long answers and little patience."""
    with listening_app(long_answer, ServeConfig(run="x", client_timeout=PATIENCE)) as address:
        yield port_of(address)


@pytest.mark.parametrize("path", ["/whole", "/parts"])
@pytest.mark.parametrize("size", [0, 1], ids=["nothing", "drops"])
def test_an_answer_that_is_not_read_is_not_kept(long_port: int, path: str, size: int) -> None:
    """It is reset, however much of it the kernel has."""
    with connect(long_port) as client:
        client.sendall(head(path, method="GET"))
        deadline = time.monotonic() + 20 * PATIENCE
        while not client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            time.sleep(0.05)
            assert time.monotonic() < deadline
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(size) if size else True


def test_an_answer_that_is_read_slowly_arrives_whole(long_port: int) -> None:
    with socket.create_connection(("127.0.0.1", long_port), timeout=20) as client:
        client.sendall(head("/parts", method="GET").replace(b"1.1", b"1.0"))
        n_bytes, began = 0, time.monotonic()
        while data := client.recv(1 << 20 if time.monotonic() > began + 3 * PATIENCE else 10_000):
            n_bytes += len(data)
            if time.monotonic() < began + 3 * PATIENCE:
                time.sleep(0.02)
    assert n_bytes > LONG


def test_connections_leave_descriptors_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol.resource, "getrlimit", lambda _: (protocol.SPARE_FILES + 20, 1 << 20))
    config = ServeConfig(run="x", client_timeout=PATIENCE)
    with listening_app(long_answer, config) as address, contextlib.ExitStack() as opened:
        for _ in range(20):
            opened.enter_context(connect(port_of(address)))
        with connect(port_of(address)) as another, pytest.raises(ConnectionResetError):
            another.recv(1)
        until(lambda: answers(port_of(address)))


def answers(port: int) -> bool:
    """Whether a new connection is answered."""
    try:
        with connect(port) as client:
            client.sendall(head("/parts", method="GET"))
            return client.recv(12) == b"HTTP/1.1 200"
    except ConnectionError:
        return False


def until(condition: Any) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


STREAMED = json.dumps({"text": ["the old dog sees the cat"] * 400, "stream": True}).encode()
WHOLE = json.dumps({"text": ["the old dog sees the cat"] * 400}).encode()
LIBRE = json.dumps({"q": ["the old dog sees the cat"] * 400, "source": "en", "target": "de"}).encode()
MULTIPART = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.html"\r\n\r\n' + b"a" * 100


@pytest.mark.parametrize(
    ("path", "body", "n_bytes"),
    [
        *(("/v1/generate", b'{"text": ', 100), ("/v1/jobs", b"the old dog\n" * 9, 5000), ("/translate", b"{", 100)),
        *(("/v1/documents?format=html", b"<p>", 100), ("/translate_file", MULTIPART, 5000), ("/v1/score", b"{", 10)),
        *(("/v1/generate", WHOLE, len(WHOLE)), ("/v1/generate", STREAMED, len(STREAMED))),
        *(("/translate", LIBRE, len(LIBRE)), ("/v1/nothing", b"", 100)),
    ],
    ids=[
        *("body", "body of a job", "body of libretranslate", "body of a document", "form", "scores"),
        *("before the answer", "in the stream", "before libretranslate's answer", "unknown route"),
    ],
)
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_client_that_disconnects_is_no_bug(
    port: int, caplog: pytest.LogCaptureFixture, path: str, body: bytes, n_bytes: int, reset: bool
) -> None:
    caplog.set_level(logging.WARNING)
    before = counted(port)
    with connect(port) as client:
        if path == "/translate_file":
            form = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=x\r\n"
            client.sendall(f"{form}content-length: {n_bytes}\r\n\r\n".encode() + body)
        else:
            client.sendall(head(path, n_bytes) + body)
        if body is STREAMED:
            client.recv(200)
        elif n_bytes == len(body):
            until(lambda: running(port) == 1)
        else:
            time.sleep(0.05)
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    until(lambda: running(port) == 0)
    until(lambda: sum(counted(port).values()) > sum(before.values()) + 1)
    assert counted(port).get("500", 0) == 0
    assert [record.getMessage() for record in caplog.records] == []


def test_requests_that_a_stop_cuts_off_are_no_bug(run: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.ExitStack() as clients:
        with listening(tiny_server(run, jobs=str(tmp_path), drain=0)) as address:
            upload, streaming = (clients.enter_context(connect(port_of(address))) for _ in range(2))
            upload.sendall(head("/v1/jobs", 1000) + b"the old dog\n")
            streaming.sendall(head("/v1/generate", len(STREAMED)) + STREAMED)
            streaming.recv(100)
            until(lambda: list(tmp_path.glob(".uploads-*/*/input.txt")))
        answered = upload.recv(10_000)
    assert answered.startswith(b"HTTP/1.1 503 ")
    assert b"the server is ending" in answered
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    assert not any(record.exc_info for record in caplog.records)


def test_the_body_of_an_answer_waits_for_no_acknowledgement() -> None:
    """On a socket that the server has opened itself, as the command does."""

    async def nodelay() -> int:
        config = protocol.server_settings(lambda *_: None, ServeConfig(run="x"))
        config.load()
        state, loop = SimpleNamespace(connections=set(), tasks=set(), default_headers=[]), asyncio.get_running_loop()
        make = lambda: config.http_protocol_class(config=config, server_state=state, app_state={})  # noqa: E731
        with socket.create_server(("127.0.0.1", 0)) as listener, connect(listener.getsockname()[1]):
            accepted, _ = listener.accept()
            transport, _ = await loop.connect_accepted_socket(make, accepted)
            found: int = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            transport.abort()
            await asyncio.sleep(0)
            return found

    assert asyncio.run(nodelay())


def test_a_client_has_a_rate_and_a_number_of_requests_at_once(run: str) -> None:
    async def talk() -> tuple[list[httpx.Response], list[httpx.Response], list[int]]:
        options = {"client_rate": 12, "client_requests": 4}
        async with client_of(tiny_server(run, **options)) as client:
            ask = lambda: client.post("/v1/generate", json={"text": "the old dog"})  # noqa: E731
            at_once = await asyncio.gather(*(ask() for _ in range(10)))
            later = [await ask() for _ in range(10)]
            return at_once, later, [(await client.get("/healthz")).status_code for _ in range(30)]

    at_once, later, health = asyncio.run(talk())
    assert [answer.status_code for answer in at_once] == [200] * 4 + [429] * 6
    assert [answer.status_code for answer in later] == [200] * 8 + [429] * 2
    assert set(health) == {200}
    assert at_once[-1].json()["error"]["message"] == "4 requests of this client are worked on already; wait for one"
    assert later[-1].json()["error"]["message"] == "a client may send 12 requests a minute; try again in 5 s"
    assert later[-1].headers["retry-after"] == "5"


def limit(now: list[float], **config: int) -> ClientLimit:
    """One of two keys, with a clock."""
    server: Any = SimpleNamespace(
        config=SimpleNamespace(**{"client_rate": 0, "client_requests": 0} | config), knows=["a", "b"].__contains__
    )
    return ClientLimit(None, server, Errors([]), now=lambda: now[0])


def test_requests_come_back_with_time() -> None:
    now = [1000.0]
    limited = limit(now, client_rate=30)
    assert [limited._refusal("x") is None for _ in range(31)] == [True] * 30 + [False]
    refusal = limited._refusal("x")
    assert refusal is not None
    assert (refusal.status, refusal.retry_after) == (429, 2)
    assert limited._refusal("y") is None
    now[0] += refusal.retry_after
    assert limited._refusal("x") is None
    assert limited._refusal("x") is not None
    now[0] += 61
    limited._refusal("z")
    assert list(limited.restored) == ["z"], "a client with all its requests is not remembered"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (("1.2.3.4", {}), ("1.2.3.4", {}), True),
        (("1.2.3.4", {}), ("1.2.3.5", {}), False),
        (("2001:db8:1:2::3", {}), ("2001:db8:1:2:ffff::4", {}), True),
        (("2001:db8:1:2::3", {}), ("2001:db8:1:3::3", {}), False),
        (("::ffff:1.2.3.4", {}), ("::ffff:1.2.3.5", {}), False),
        (("1.2.3.4", {"authorization": "Bearer a"}), ("1.2.3.5", {"x-api-key": "a"}), True),
        (("1.2.3.4", {"authorization": "Bearer a"}), ("1.2.3.4", {"authorization": "Bearer b"}), False),
        (("1.2.3.4", {"authorization": "Bearer no key"}), ("1.2.3.4", {"authorization": "Bearer another"}), True),
    ],
    ids=["address", "addresses", "network", "networks", "mapped", "key", "keys", "no keys"],
)
def test_a_client_is_a_key_or_an_address(one: tuple[str, Any], other: tuple[str, Any], is_same: bool) -> None:
    def of(address: str, headers: dict[str, str]) -> str:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        return limit([0.0])._client({"client": (address, 1), "headers": raw})

    assert (of(*one) == of(*other)) is is_same
