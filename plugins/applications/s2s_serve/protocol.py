"""HTTP connections whose clients are bounded in time, which uvicorn does not do."""

from __future__ import annotations

__all__ = ["server_settings"]

import fcntl
import resource
import socket
import struct
import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from s2s_serve.joined_writes import JoinedWrites

if TYPE_CHECKING:
    import asyncio

    from s2s_serve import ServeConfig

MIN_RATE = 500
"""Bytes a second at which a body has to arrive, and an answer to be read"""
SPARE_FILES = 100
"""Descriptors that connections leave for files"""


def server_settings(app: Any, config: ServeConfig, **others: Any) -> uvicorn.Config:
    """The settings of uvicorn for an application."""

    class Protocol(PatientProtocol):
        patience = config.client_timeout
        max_connections = max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_FILES)

    return uvicorn.Config(
        app,
        http=Protocol,
        loop="asyncio",  # beside many busy connections, uvloop delays new ones by seconds
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(config.drain),
        **others,
    )


class PatientProtocol(H11Protocol):
    """Closes a connection whose client takes too long.

    The head of a request has to arrive within `patience` seconds. In each `patience` seconds of a body, and of reading
    an answer, `MIN_RATE` bytes a second have to be transferred, or all that is left.
    """

    patience = 30.0
    max_connections = 1000
    arrival: asyncio.TimerHandle | None = None
    """Runs while a request, or the rest of one, has to arrive"""
    departure: asyncio.TimerHandle | None = None
    """Runs while an answer has to be read"""
    awaited: Any = None
    """What has to arrive, by h11's states of both sides"""
    n_arrived = n_unread = 0
    """Bytes that have arrived since `arrival` began, and that were to be read when `departure` began"""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", JoinedWrites(transport, self.loop)))
        # asyncio does so for sockets that name their protocol alone: the body of an answer waits for no acknowledgement
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=0)  # `pause_writing` is called as soon as a client does not read
        self._await_client()
        if len(self.connections) > self.max_connections:
            self._reset()

    def data_received(self, data: bytes) -> None:
        self.n_arrived += len(data)
        super().data_received(data)
        self._await_client()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_client()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel(self.departure)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel(self.arrival, self.departure)

    def _await_client(self) -> None:
        """Begin to wait for what the client has to send now, unless it is awaited already."""
        awaited = self.conn.their_state, self.conn.our_state is h11.DONE
        if awaited == self.awaited or self.transport.is_closing():
            return
        self.awaited = awaited
        self._cancel(self.arrival)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._await_data()

    def _await_data(self) -> None:
        self.n_arrived = 0
        self.arrival = self.loop.call_later(self.patience, self._check_arrival)

    def _check_arrival(self) -> None:
        """End the connection unless enough has arrived meanwhile, or the server itself has not read."""
        is_read = self.conn.their_state is h11.SEND_BODY and self.conn.our_state is not h11.DONE
        if self.flow.read_paused or (is_read and self.n_arrived >= MIN_RATE * self.patience):
            self._await_data()
        elif self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse()
        else:  # answered already
            self._reset()

    def _await_reading(self) -> None:
        self.n_unread = self._count_unread()
        self.departure = self.loop.call_later(self.patience, self._check_departure)

    def _check_departure(self) -> None:
        """End the connection unless enough was read meanwhile; nothing is added before all is read."""
        if self.n_unread - self._count_unread() >= MIN_RATE * self.patience:
            self._await_reading()
        else:
            self._reset()

    def _count_unread(self) -> int:
        """Bytes of an answer in our buffer and, which may be megabytes, in the kernel's."""
        n_queued = bytearray(4)
        with suppress(OSError):
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, n_queued)
        return self.transport.get_write_buffer_size() + int.from_bytes(n_queued, sys.byteorder)

    def _reset(self) -> None:
        """Close at once: the kernel, too, keeps nothing for the client."""
        linger = struct.pack("ii", 1, 0)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.transport.abort()

    def _cancel(self, *timers: asyncio.TimerHandle | None) -> None:
        for timer in timers:
            if timer is not None:
                timer.cancel()

    def _refuse(self) -> None:
        if self.cycle is not None:
            self.cycle.disconnected = True  # its application answers no more
            self.cycle.message_event.set()
        text = f"the request has arrived too slowly: {MIN_RATE} bytes a second, within {self.patience:g} s\n".encode()
        headers = [("content-type", "text/plain"), ("content-length", str(len(text))), ("connection", "close")]
        response = h11.Response(status_code=408, headers=headers, reason="Request Timeout")
        events = response, h11.Data(data=text), h11.EndOfMessage()
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()
