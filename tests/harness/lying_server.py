"""A loopback server for downloads whose answers a test decides: it lies, stalls, cuts off, redirects, changes files."""

from __future__ import annotations

__all__ = ["LyingServer"]

import hashlib
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE = 1 << 16


@dataclass
class LyingServer:
    """Serves `files` by path with an ETag of their contents, unless one of the other fields says otherwise."""

    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    """Path -> address"""
    statuses: list[int] = field(default_factory=list)
    """Errors for the next requests, one each"""
    cut_after: list[int] = field(default_factory=list)
    """Bytes of a body, in whole or part, after which the next connections are closed, one each"""
    stall_after: list[int] = field(default_factory=list)
    """The same for connections that then send nothing and stay open"""
    delay: float = 0.0
    """Seconds before each 64 KiB"""
    says_bytes: int | None = None
    """Content-Length, whatever is sent"""
    has_ranges: bool = True
    etag: str | None = None
    """Of all files, even where they differ; empty: none"""
    shift: int = 0
    """By which a range begins elsewhere than it was asked for"""
    requests: list[dict[str, str]] = field(default_factory=list)
    """Headers of every request, with its path"""
    address: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str) -> str:
        """Of a file."""
        return f"{self.address}/{path}"

    @contextmanager
    def running(self) -> Iterator[LyingServer]:
        """Serves in a thread."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.serve(self)

            def log_message(self, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.ended.set()
            server.shutdown()
            server.server_close()
            thread.join()

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """One request."""
        path = handler.path.lstrip("/")
        self.requests.append({"path": path, **dict(handler.headers)})
        if self.statuses:
            return _empty(handler, self.statuses.pop(0))
        if path in self.redirects:
            return _empty(handler, 302, {"Location": self.redirects[path]})
        if path not in self.files:
            return _empty(handler, 404)
        body = self.files[path]
        etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"' if self.etag is None else self.etag
        asked, begin, status = handler.headers.get("Range"), 0, 200
        if asked and self.has_ranges and handler.headers.get("If-Range") == etag:
            begin = int(asked.removeprefix("bytes=").rstrip("-")) + self.shift
            if begin >= len(body):
                return _empty(handler, 416)
            status = 206
        sent = body[begin:]
        handler.send_response(status)
        if status == 206:
            handler.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        if etag:
            handler.send_header("ETag", etag)
        handler.send_header("Content-Length", str(len(sent) if self.says_bytes is None else self.says_bytes))
        handler.end_headers()
        stall = self.stall_after.pop(0) if self.stall_after else None
        cut = self.cut_after.pop(0) if self.cut_after else stall
        _send(handler, sent[:cut], self.delay)
        if stall is not None:
            self.ended.wait(5)
        if cut is not None or self.says_bytes is not None:
            handler.close_connection = True
        return None


def _send(handler: BaseHTTPRequestHandler, data: bytes, delay: float) -> None:
    """A body; the client may be gone."""
    with suppress(ConnectionError):
        for begin in range(0, len(data), PIECE):
            time.sleep(delay)
            handler.wfile.write(data[begin : begin + PIECE])
        handler.wfile.flush()


def _empty(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str] | None = None) -> None:
    handler.send_response(status)
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", "0")
    handler.end_headers()
