"""A transport that sends what is written in one turn of the event loop together: the head and the body of an answer."""

from __future__ import annotations

__all__ = ["JoinedWrites"]

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

MAX_JOINED = 65_536
"""Bytes; more are sent at once, so that nothing grows and a client that does not read is noticed"""


class JoinedWrites:
    """A transport of asyncio with fewer system calls, in each of which another thread takes the interpreter's lock."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.transport, self.loop = transport, loop
        self.waiting = bytearray()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def write(self, data: bytes) -> None:
        """Send data at the end of this turn, or now if it is long."""
        if len(self.waiting) + len(data) > MAX_JOINED:
            self._send()
            self.transport.write(data)
            return
        if not self.waiting:
            self.loop.call_soon(self._send)
        self.waiting += data

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Send all parts, as by `write`."""
        self.write(b"".join(parts))

    def write_eof(self) -> None:
        """Close this side of the connection when all is sent."""
        self._send()
        self.transport.write_eof()

    def close(self) -> None:
        """Close the connection when all is sent."""
        self._send()
        self.transport.close()

    def abort(self) -> None:
        """Close the connection at once; what is not sent yet is lost."""
        self.waiting.clear()
        self.transport.abort()

    def _send(self) -> None:
        if self.waiting:
            data, self.waiting = self.waiting, bytearray()
            self.transport.write(data)
