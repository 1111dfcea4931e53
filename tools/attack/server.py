"""Requests of hostile pages, of slow clients, and of clients that disconnect, to a server with little patience."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import time
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from attack.scene import Scene
from attack.serving import WAIT, Serving, judged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from attack.verdicts import Case

N = 10
"""Requests of a case"""
PATIENCE = 0.5
OPTIONS = ("hosts=[s2s,'*.example.com']", "cors=[https://app.example.org]", f"client_timeout={PATIENCE}", "jobs=jobs")

TEXT = "the old dog sees the cat"
BODIES: dict[str, bytes] = {
    "/v1/generate": json.dumps({"text": [TEXT] * 40}).encode(),
    "/v1/generate?": json.dumps({"text": [TEXT] * 40, "stream": True}).encode(),
    "/v1/score": json.dumps({"pairs": [{"src": TEXT, "tgt": "der hund"}] * 20}).encode(),
    "/v1/jobs": f"{TEXT}\n".encode() * 40,
    "/translate": json.dumps({"q": [TEXT] * 40, "source": "auto", "target": "de"}).encode(),
    "/v1/documents?format=html": f"<p>{TEXT}.</p>".encode() * 40,
    "/v1/nothing": b"x",
}
"""Routes that take a body"""
READ = ("/", "/healthz", "/metrics", "/openapi.json", "/v1/runs", "/languages", "/v1/jobs/" + "0" * 32, "/v1/nothing")

OWN_HOSTS = (
    *("localhost", "LocalHost", "localhost.", "127.0.0.1", "127.255.0.3", "[::1]", "s2s", "S2S", "a.example.com"),
    *("a.b.Example.COM",),
)
FOREIGN_HOSTS = (
    *(
        "evil.org",
        "localhost.evil.org",
        "evil-localhost",
        "example.com",
        "notexample.com",
        "s2s.evil.org",
        "192.168.1.2",
    ),
    *("127.0.0.1.nip.io", "2130706433", "0x7f000001", "017700000001", "127.1", "0.0.0.0", "[::]", "[::2]", "8.8.8.8"),
    *(
        "localhost..",
        "-",
        "*",
        "*.example.com",
        ".example.com",
        "localhost@evil.org",
        "localhost,evil.org",
        "[::1",
        "null",
    ),
    *(
        "a" * 300,
        "xn--lcalhost-5ya",
        "localhost:8000:8000",
        "localhost:",
        "localhost:x",
        "http://localhost",
        "127.0.0.1x",
    ),
)
FOREIGN_ORIGINS = (
    *(
        "https://evil.org",
        "http://localhost:1",
        "http://localhost",
        "http://127.0.0.1:PORT",
        "null",
        "https://example.com",
    ),
    *(
        "https://app.example.org:8443",
        "http://app.example.org",
        "https://app.example.org.evil.org",
        "file://",
        "https://",
    ),
    *(
        "http://localhost:PORT.evil.org",
        "http://localhost:PORT@evil.org",
        "chrome-extension://abcdef",
        "localhost:PORT",
    ),
    *("https://xapp.example.org", "https://s2s", "*", "https://app.example.org/", "x", "data:", "http://[::1]:PORT"),
)


class Fault(NamedTuple):
    """What was done, and what of its outcome is not as it should be; empty: nothing."""

    what: str
    complaint: str = ""


class Server:
    """None of it is answered, kept, counted as a bug, or ends the server."""

    def __init__(self, root: Path) -> None:
        self.scene = Scene(root)
        for module in ("app", "command", "protocol", "server"):
            import_module(f"s2s_serve.{module}")  # in this process, so that its children need not

    def case(self, number: int, seed: int) -> Case:
        """Faults of one kind, all to one server."""
        draw = random.Random(f"server {seed} {number}")
        folder = self.scene.copy()
        serving = Serving(folder, *OPTIONS)
        faults = KINDS[number % len(KINDS)](draw, serving) if serving.is_ready else []
        complaints = [f"{fault.what}: {fault.complaint}" for fault in faults if fault.complaint]
        if serving.is_ready:
            complaints += _health(serving)
        return judged(number, "; ".join(fault.what for fault in faults), serving, complaints, max(1, len(faults)))


def _health(serving: Serving) -> list[str]:
    """What a server complains of itself: bugs that it has counted, requests of clients that are gone."""
    until = time.monotonic() + WAIT
    while True:
        said = serving.ask("GET", "/metrics").body.decode(errors="replace")
        if 'status="500"' in said:
            return ["counted as a bug"]
        if "\ns2s_num_requests_running 0" in said:
            return []
        if time.monotonic() > until:
            return ["requests of clients that are gone are still worked on"]
        time.sleep(0.1)


def _request(draw: random.Random) -> tuple[str, str, bytes]:
    """Method, path and body; `?` only tells two bodies apart."""
    if draw.random() < 0.5:
        return draw.choice(("GET", "GET", "HEAD", "OPTIONS", "DELETE")), draw.choice(READ), b""
    path = draw.choice(list(BODIES))
    return "POST", path.removesuffix("?"), BODIES[path]


def hosts(draw: random.Random, serving: Serving) -> list[Fault]:
    """Names of this server, and others, with and without a port."""
    faults = []
    for _ in range(N):
        method, path, body = _request(draw)
        is_own = draw.random() < 0.3
        host = draw.choice(OWN_HOSTS if is_own else FOREIGN_HOSTS) + draw.choice(
            ("", ":80", f":{serving.port}", ":65535")
        )
        kind = draw.choice(("application/json", "text/plain", "application/x-www-form-urlencoded"))
        status = serving.ask(method, path, [("host", host), ("content-type", kind)], body).status
        is_right = status not in (0, 403, 421, 500) if is_own else status in (400, 421)
        faults.append(Fault(f"{method} {path} of {host[:60]}", "" if is_right else f"answered with {status}"))
    return faults


def origins(draw: random.Random, serving: Serving) -> list[Fault]:
    """Requests of pages, simple ones and others; and no job comes of them."""
    own = f"localhost:{serving.port}"
    faults = []
    for _ in range(N):
        method, path, body = _request(draw)
        is_own = draw.random() < 0.3
        headers = [("host", own), ("content-type", draw.choice(("text/plain", "application/json")))]
        if is_own:
            allowed = (
                [],
                [("origin", f"http://{own}")],
                [("origin", "https://app.example.org")],
                [("sec-fetch-site", "none")],
            )
            headers += draw.choice(allowed)
        elif draw.random() < 0.7:
            headers += [("origin", draw.choice(FOREIGN_ORIGINS).replace("PORT", str(serving.port)))]
            headers += draw.choice(([], [("sec-fetch-site", "same-origin")], [("referer", f"http://{own}/")]))
        else:
            headers += [("sec-fetch-site", draw.choice(("cross-site", "same-site")))]
            headers += [("sec-fetch-mode", draw.choice(("no-cors", "cors", "websocket"))), ("sec-fetch-dest", "image")]
        n_jobs = len(list(serving.child.streams.parent.glob("copy*/jobs/*/job.json")))
        status = serving.ask(method, path, headers, body).status
        n_more = len(list(serving.child.streams.parent.glob("copy*/jobs/*/job.json"))) - n_jobs
        is_right = status not in (0, 403, 421, 500) if is_own else status == 403 and not n_more
        faults.append(Fault(f"{method} {path} of {dict(headers)}", "" if is_right else f"answered with {status}"))
    return faults


def slow(draw: random.Random, serving: Serving) -> list[Fault]:
    """Heads, bodies and reading in drops, all at once: every connection is closed by the server."""
    clients = [_slow_client(draw, serving) for _ in range(N)]
    open_ones, until = dict(enumerate(clients)), time.monotonic() + WAIT
    while open_ones and time.monotonic() < until:
        time.sleep(0.05)
        for at, (_, client, drop) in list(open_ones.items()):
            if _is_closed(client, drop):
                client.close()
                del open_ones[at]
    for _, client, _ in open_ones.values():
        client.close()
    return [Fault(what, "is waited for" if at in open_ones else "") for at, (what, _, _) in enumerate(clients)]


def _slow_client(draw: random.Random, serving: Serving) -> tuple[str, socket.socket, bytes]:
    """What it does, its connection, and what it sends at a time; nothing: it reads."""
    client = serving.connect()
    path = draw.choice(list(BODIES))
    head = f"POST {path.removesuffix('?')} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n".encode()
    kind = draw.choice(("nothing", "head", "body", "body of many", "reading"))
    n_bytes = draw.choice((1000, 100_000, 10_000_000))
    drop = b"a"
    if kind == "head":
        client.sendall(head[: draw.randrange(1, len(head))])
        drop = draw.choice((b"a", b"a: b\r\n"))
    elif kind.startswith("body"):
        sent = draw.randrange(min(n_bytes, 50_000)) if kind == "body of many" else 0
        client.sendall(head + f"content-length: {n_bytes}\r\n\r\n".encode() + b"a" * sent)
    elif kind == "reading":
        client.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 400)
        return f"reads {path} in drops", client, b""
    return f"sends {kind} of {path}, {drop!r} at a time", client, drop if kind != "nothing" else b"\0"


def _is_closed(client: socket.socket, drop: bytes) -> bool:
    """Whether the server has closed a connection, which is used a little now."""
    if client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        return True
    try:
        if not drop:
            return not client.recv(1)
        if drop != b"\0":
            client.send(drop)
        client.settimeout(0.001)
        return not client.recv(1 << 16)
    except TimeoutError:
        return False
    except OSError:
        return True
    finally:
        client.settimeout(WAIT)


def disconnects(draw: random.Random, serving: Serving) -> list[Fault]:
    """Clients that close or reset their connection in the head, the body, before the answer, or while they read it."""
    faults = []
    for _ in range(N):
        path = draw.choice(list(BODIES))
        body, is_whole = BODIES[path], draw.random() < 0.5
        head = f"POST {path.removesuffix('?')} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        data = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        cut = len(data) if is_whole else draw.randrange(1, len(data))
        how = draw.choice(("closes", "resets", "shuts down"))
        with serving.connect() as client, contextlib.suppress(ConnectionError):
            client.sendall(data[:cut])
            time.sleep(draw.choice((0, 0.001, 0.02, 0.1)))
            if is_whole and draw.random() < 0.3:
                client.recv(draw.choice((1, 20, 300)))
            if how == "resets":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            elif how == "shuts down":
                client.shutdown(socket.SHUT_WR)
        faults.append(Fault(f"{how} after {cut} of {len(data)} bytes for {path}"))
    return faults


KINDS: Sequence[Callable[[random.Random, Serving], list[Fault]]] = (hosts, origins, slow, disconnects)
