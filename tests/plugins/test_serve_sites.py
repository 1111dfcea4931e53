"""Which names the server answers for, and which pages may call it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from s2s import ConfigError
from s2s_serve import ServeConfig
from s2s_serve.errors import Errors
from s2s_serve.own_site import OwnSite

if TYPE_CHECKING:
    from collections.abc import Sequence

Header = tuple[str, str]

LOOPBACK = [
    "localhost",
    "LOCALHOST:8000",
    "localhost.",
    "127.0.0.1",
    "127.0.0.1:8000",
    "127.9.8.7:1",
    "[::1]",
    "[::1]:80",
]
ADDRESSES = ["192.168.0.7:8000", "8.8.8.8", "[2001:db8::1]:8000", "0.0.0.0:8000"]
MALFORMED = [
    "",
    "localhost:",
    "localhost:port",
    "localhost:123456",
    "a@localhost",
    "localhost/x",
    "[::1",
    "local host",
    "localhost,b",
]
NAMES = ["example.org", "example.org:8000", "localhost.example.org", "127.0.0.1.example.org", "2130706433", "0x7f.1"]


def status(headers: Sequence[Header], method: str = "POST", **options: Any) -> int:
    """The status of a request with these headers; 200 if it has reached the application."""
    found: list[int] = []

    async def send(message: Any) -> None:
        found.append(message.get("status", 0))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers]
    scope = {"type": "http", "method": method, "path": "/", "headers": raw}
    asyncio.run(OwnSite(app, ServeConfig(run="x", **options), Errors([]))(scope, None, send))
    return found[0]


def to(host: str, /, **options: Any) -> int:
    """The status of a request to a host."""
    return status([("host", host)], **options)


@pytest.mark.parametrize("bound", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "::", "192.168.0.7", "myserver"])
def test_names_of_this_machine_are_answered_wherever_it_listens(bound: str) -> None:
    named = f"[{bound}]:1" if ":" in bound else f"{bound}:1"
    assert {to(host, host=bound) for host in [*LOOPBACK, named]} == {200}


@pytest.mark.parametrize(
    ("bound", "expected"), [("127.0.0.1", 421), ("localhost", 421), ("::1", 421), ("0.0.0.0", 200)]
)
def test_other_addresses_are_answered_where_other_machines_can_ask(bound: str, expected: int) -> None:
    assert {to(host, host=bound) for host in ADDRESSES} == {expected}


@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0"])
def test_no_other_name_is_answered_for(bound: str) -> None:
    assert {host: to(host, host=bound) for host in (*MALFORMED, *NAMES)} == dict.fromkeys((*MALFORMED, *NAMES), 421)
    assert status([]) == 421
    assert status([("host", "localhost"), ("host", "localhost")]) == 421


def test_names_can_be_added() -> None:
    options = {"hosts": ["translate.example.org", "*.Example.com", "my_service"]}
    own = ["translate.example.org:8000", "TRANSLATE.example.org", "a.example.com", "a.b.example.com", "my_service"]
    assert {to(host, **options) for host in [*own, "localhost"]} == {200}
    assert {
        to(host, **options) for host in ["example.com", ".example.com", "badexample.com", "x.translate.example.org"]
    } == {421}
    assert {to(host, hosts=["*"]) for host in [*NAMES, *ADDRESSES]} == {200}


FOREIGN = [
    *("https://example.org", "http://localhost:3000", "http://localhost", "http://127.0.0.1:8000", "null", ""),
    *("http://localhost:8000.example.org", "ftp://localhost:8000", "localhost:8000", "chrome-extension://abc"),
]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("origin", FOREIGN)
def test_pages_of_other_origins_are_refused(origin: str, method: str) -> None:
    assert status([("host", "localhost:8000"), ("origin", origin)], method) == 403


def test_pages_of_its_own_are_answered() -> None:
    own = [("localhost:8000", "http://localhost:8000"), ("LOCALHOST", "http://localhost"), ("[::1]:80", "http://[::1]")]
    behind_tls = [("127.0.0.1", "https://127.0.0.1"), ("localhost:443", "https://localhost")]
    for host, origin in own + behind_tls:
        assert status([("host", host), ("origin", origin)]) == 200


def test_origins_can_be_allowed() -> None:
    for allowed in (["https://example.org"], ["*"]):
        assert status([("host", "localhost"), ("origin", "https://example.org")], cors=allowed) == 200
    for origin in ("https://example.org:8000", "http://example.org", "null", "https://a.example.org"):
        assert status([("host", "localhost"), ("origin", origin)], cors=["https://example.org"]) == 403
    two = [("origin", "https://example.org"), ("origin", "https://evil.org")]
    assert status([("host", "localhost"), *two], cors=["https://example.org"]) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "unknown"])
def test_of_a_request_without_an_origin_the_site_counts(site: str) -> None:
    """Pictures, scripts and frames; a link is followed by a person."""
    headers = [("host", "localhost"), ("sec-fetch-site", site)]
    link = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]
    frame = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")]
    assert status(headers, "GET") == 403
    assert status([*headers, *frame], "GET") == 403
    assert status([*headers, *link], "GET") == 200
    assert status([*headers, *link], "POST") == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_what_a_person_or_its_own_page_asks_is_answered(site: str) -> None:
    assert status([("host", "localhost"), ("sec-fetch-site", site)]) == 200


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"hosts": ["https://example.org"]}, "'https://example.org' is not a name without scheme and port"),
        ({"hosts": ["example.org:80"]}, "'example.org:80' is not a name"),
        ({"hosts": ["*example.org"]}, "'*example.org' is not a name"),
        ({"cors": ["example.org"]}, "'example.org' is not an origin without a path"),
        ({"cors": ["https://example.org/"]}, "'https://example.org/' is not an origin"),
        ({"cors": ["https://Example.org"]}, "is not an origin"),
    ],
    ids=str,
)
def test_what_can_be_no_name_and_no_origin_is_refused(options: dict[str, list[str]], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ServeConfig(run="x", **options)  # type: ignore[arg-type]
    assert reason in str(caught.value)
