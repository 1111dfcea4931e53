"""What is written in one turn of the event loop is sent together, in order, and before the connection is closed."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from harness.small_server import listening_app
from s2s_serve import ServeConfig
from s2s_serve.joined_writes import MAX_JOINED, JoinedWrites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LONG = b"a" * MAX_JOINED


class Recorder:
    """A transport that records what it is asked for."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.calls.append(bytes(data))

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.calls.append(b"".join(parts))

    def write_eof(self) -> None:
        self.calls.append(b"end")

    def abort(self) -> None:
        self.calls.append(b"aborted")

    def close(self) -> None:
        self.calls.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.calls


def calls(write: Callable[[Any], Any]) -> list[bytes]:
    """Of a transport, for what `write` does with one around it in one turn."""

    async def turn() -> list[bytes]:
        recorder: Any = Recorder()
        write(JoinedWrites(recorder, asyncio.get_running_loop()))
        await asyncio.sleep(0)
        found: list[bytes] = recorder.calls
        return found

    return asyncio.run(turn())


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ([b"head", b"body"], [b"headbody"]),
        ([b"head", b"", b"body", b"end"], [b"headbodyend"]),
        ([b"head", LONG, b"end"], [b"head", LONG, b"end"]),
        ([LONG, b"end"], [LONG, b"end"]),
        ([], []),
    ],
    ids=["two", "some", "a long one between", "a long one first", "none"],
)
def test_writes_of_one_turn_are_one(written: list[bytes], sent: list[bytes]) -> None:
    assert calls(lambda transport: [transport.write(data) for data in written]) == sent


def test_all_is_sent_before_a_connection_is_closed() -> None:
    def write(transport: Any) -> None:
        transport.write(b"all")
        assert not transport.is_closing()
        transport.close()
        assert transport.is_closing()

    assert calls(write) == [b"all", b"closed"]


def test_several_parts_are_sent_in_order_with_what_is_written_before_and_after() -> None:
    def write(transport: Any) -> None:
        transport.write(b"head")
        transport.writelines([b"body", b" and "])
        transport.write(b"end")

    assert calls(write) == [b"headbody and end"]


def test_all_is_sent_before_one_side_is_closed() -> None:
    assert calls(lambda transport: (transport.write(b"all"), transport.write_eof())) == [b"all", b"end"]


def test_nothing_is_sent_after_an_abort() -> None:
    assert calls(lambda transport: (transport.write(b"all"), transport.abort())) == [b"aborted"]


def test_writes_of_two_turns_are_two() -> None:
    async def turns() -> list[bytes]:
        recorder: Any = Recorder()
        transport = JoinedWrites(recorder, asyncio.get_running_loop())
        for data in (b"first", b"second"):
            transport.write(data)
            await asyncio.sleep(0)
        return list(recorder.calls)

    assert asyncio.run(turns()) == [b"first", b"second"]


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"body"})


@pytest.mark.parametrize("version", [b"1.0", b"1.1"], ids=["closed after it", "kept"])
def test_a_client_receives_head_and_body_at_once(version: bytes) -> None:
    with listening_app(application, ServeConfig(run="x")) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(b"GET / HTTP/%s\r\nhost: localhost\r\n\r\n" % version)
            found = client.recv(10_000)
    assert found.startswith(b"HTTP/1.1 200 ")
    assert found.endswith(b"\r\n\r\nbody")
