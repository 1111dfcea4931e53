"""Plain requests, which are answered without FastAPI, have the answers that FastAPI gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from fastapi import routing

from harness.small_server import Served, served, tiny_server, train_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

TEXT = b'{"text": "the old dog"}'
PLAIN, SAME = "application/json", "application/json; charset=utf-8"
"""The same for FastAPI, to which a request with the second one goes"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """With a key."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "keys").write_text("secret\n")
    with served(tiny_server(train_run(folder), key_file=str(folder / "keys"), max_chars=1000)) as started:
        yield started


@pytest.fixture
def n_routed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The endpoints that FastAPI has called."""
    called, run = list[Any](), routing.run_endpoint_function

    async def count(**options: Any) -> Any:
        called.append(options["dependant"].call)
        return await run(**options)

    monkeypatch.setattr(routing, "run_endpoint_function", count)
    return called


def post(server: Served, content: bytes, kind: str, key: str = "secret") -> httpx.Response:
    headers = {"content-type": kind, "authorization": f"Bearer {key}"}
    answer: httpx.Response = server.ask(lambda client: client.post("/v1/generate", content=content, headers=headers))
    return answer


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (TEXT, 200),
        (b'{"text": ["the dog\\na cat", ""], "nbest": 2, "fields": ["tokens", "align"]}', 200),
        (b'{"text": "the dog", "stream": true}', 200),
        (b'{"text": "the dog", "run": "none"}', 422),
        (b'{"text": "the dog", "nbest": 100}', 422),
        (b'{"text": "%s"}' % (b"a" * 2000), 413),
        (b'{"text": "a", "text": "b"}', 422),
        (b'{"text": "a", "unknown": 1}', 422),
        (b'{"text": "\\ud800"}', 422),
        (b'{"text": 1}', 422),
        (b'{"text": "a"', 422),
        (b"[" * 5000, 422),
        (b"\xff", 422),
        (b"", 422),
    ],
)
def test_answers_are_those_of_fastapi(server: Served, content: bytes, status: int) -> None:
    direct, routed = (post(server, content, kind) for kind in (PLAIN, SAME))
    assert (direct.status_code, direct.content) == (routed.status_code, routed.content)
    assert direct.headers == routed.headers
    assert direct.status_code == status


def test_valid_requests_alone_are_answered_directly(server: Served, n_routed: list[Any]) -> None:
    assert post(server, TEXT, PLAIN).status_code == 200
    assert not n_routed
    assert post(server, TEXT, SAME).status_code == 200
    assert len(n_routed) == 1


def test_a_request_without_a_valid_key_is_refused(server: Served) -> None:
    for key in ("", "wrong"):
        direct, routed = (post(server, TEXT, kind, key) for kind in (PLAIN, SAME))
        assert (direct.status_code, direct.content) == (routed.status_code, routed.content)
        assert direct.status_code == 401


def test_both_are_counted_under_the_same_route(server: Served) -> None:
    def n_counted() -> float:
        return server.server.metrics.requests.labels("/v1/generate", "200")._value.get()

    before = n_counted()
    for kind in (PLAIN, SAME):
        post(server, TEXT, kind)
    assert n_counted() == before + 2


def test_an_error_of_a_route_is_a_bug_in_both(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.server, "check_texts", lambda texts: 1 / 0)
    for kind in (PLAIN, SAME):
        with pytest.raises(ZeroDivisionError):  # which the client of tests raises again
            post(server, TEXT, kind)
    assert server.server.metrics.requests.labels("/v1/generate", "500")._value.get() == 2
