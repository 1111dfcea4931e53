"""s2s-serve in a child, and requests to it, for the families that attack a server."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from attack.sandbox import Child
from attack.verdicts import BAD, Case, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from attack.sandbox import Ended

WAIT = 120
"""Seconds after which a server that has not begun to answer hangs, and an answer is late"""
BEGUN = re.compile(r"^serving  http://127\.0\.0\.1:(\d+)$", re.MULTILINE)


class Answer(NamedTuple):
    """What a server has answered; status 0: nothing, or not in time."""

    status: int
    body: bytes

    @property
    def content(self) -> Any:
        """The JSON of the body; empty if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return {}


class Serving:
    """A server of runs/x in a folder, on a port of the loopback, until `stop`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.child = Child(folder, "s2s-serve", ["run=runs/x", "port=0", *options])
        self.port, self.until = 0, time.monotonic() + WAIT
        while self.child.is_running(0.05) and time.monotonic() < self.until:
            if match := BEGUN.search((self.child.streams / "err").read_text(errors="replace")):
                self.port = int(match[1])
                self.is_ready = self.ask("GET", "/healthz").status == 200
                return
        self.is_ready = False

    def connect(self) -> socket.socket:
        """A connection whose receive buffer is small."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(WAIT)
        client.connect(("127.0.0.1", self.port))
        return client

    def ask(
        self, method: str, path: str, headers: Sequence[tuple[str, str]] = (("host", "localhost"),), body: bytes = b""
    ) -> Answer:
        """The answer to a request with these headers alone, but for the length of the body."""
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        length = f"content-length: {len(body)}\r\n" if body else ""
        data = (
            f"{method} {path} HTTP/1.1\r\n{head}{length}connection: close\r\n\r\n".encode("latin-1", "replace") + body
        )
        try:
            with self.connect() as client:
                client.sendall(data)
                return _parsed(b"".join(iter(lambda: client.recv(1 << 16), b"")))
        except (ConnectionError, TimeoutError):
            return Answer(0, b"")

    def stop(self) -> Ended:
        """End it as a container does, with SIGTERM."""
        self.child.signal(signal.SIGTERM)
        return self.child.end()


def _parsed(data: bytes) -> Answer:
    head, _, body = data.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if b"transfer-encoding: chunked" in head.lower():
        body = b"".join(re.findall(rb"\r\n([^\r\n]*(?:\r\n)?[^\r\n]*)\r\n", b"\r\n" + body))
    return Answer(int(status[0]) if status else 0, body)


def judged(number: int, what: str, serving: Serving, complaints: Sequence[str], n_faults: int) -> Case:
    """The verdict on a server that is stopped now: it ends well, without a traceback, and nothing is complained of."""
    is_ready = serving.is_ready
    ended = serving.stop()
    verdict = Verdict.WARNED if "WARNING: " in ended.err or "ERROR: " in ended.err else Verdict.FINE
    if complaints:
        verdict = Verdict.SILENT
    if ended.is_late or not is_ready:
        verdict = Verdict.HANG
    if "Traceback" in ended.err or ended.code != 0:
        verdict = Verdict.TRACEBACK
    shown = ended.err.strip() if verdict in BAD else (ended.err.strip().splitlines() or [""])[-1]
    said = "; ".join([*complaints, f"{ended.code}: {shown[-3000:]}"])
    return Case(number, verdict, f"{what} -> {said}", n_faults)
