"""Whether s2s-serve leaks memory, files or threads: python benchmarks/serve_soak.py run=demo requests=20000.

Eight clients send all kinds of requests in turn: plain, several outputs, streamed, with attention, with a deadline,
scores, LibreTranslate's, a text of several sentences, and every 20th request closes its connection without waiting for
an answer. A row for every tenth of the requests: the kernel's figures for the server process.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from serve_process import Answers, Server, post, sentences, serving

N_CLIENTS = 8
ABORT_INTERVAL = 20
"""Once in this many requests, a client closes its connection before the response"""


@dataclass
class Progress:
    """Counts over all clients."""

    n: int
    numbers: Any = field(default_factory=count)
    lock: threading.Lock = field(default_factory=threading.Lock)
    answers: Answers = field(default_factory=Answers)
    n_gone: int = 0

    def next(self) -> int | None:
        """The number of the next request; None when all are sent."""
        with self.lock:
            number = next(self.numbers)
        return number if number < self.n else None


def main(run: str, n: int) -> None:
    """Print a row after each tenth of the requests."""
    texts, progress = sentences(400), Progress(n)
    with serving(run) as server:
        print("| requests | seconds | memory | files | threads | CPU a request |\n|---:|---:|---:|---:|---:|---:|")
        begun, rows = time.monotonic(), iter(range(0, n + 1, n // 10))
        row(server, next(rows), begun)
        threads = [threading.Thread(target=client, args=(server, texts, progress, i)) for i in range(N_CLIENTS)]
        for thread in threads:
            thread.start()
        for at in rows:
            while len(progress.answers.seconds) + progress.n_gone < at and any(map(threading.Thread.is_alive, threads)):
                time.sleep(0.2)
            row(server, at, begun)
        for thread in threads:
            thread.join()
        time.sleep(1.0)
        row(server, n, begun)
    found = progress.answers
    print(f"answers {dict(found.statuses)}, connections closed by their clients {progress.n_gone}")
    print(f"p50 {found.quantile(0.5):.0f} ms, p99 {found.quantile(0.99):.0f} ms, slowest {found.quantile(1):.0f} ms")


def row(server: Server, at: int, begun: float) -> None:
    """A row of the server's current resources."""
    cpu = f"{1000 * server.cpu_seconds / at:.1f} ms" if at else ""
    print(
        f"| {at:,} | {time.monotonic() - begun:.0f} | {server.memory:.1f} MB | {server.n_files} | {server.n_threads} | "
        f"{cpu} |",
        flush=True,
    )


def client(server: Server, texts: list[str], progress: Progress, seed: int) -> None:
    """Send requests over one connection, and over a new one after each that was closed."""
    draw, connection = random.Random(seed), server.connection()
    while (number := progress.next()) is not None:
        path, body = request(draw, texts)
        if number % ABORT_INTERVAL == ABORT_INTERVAL - 1:
            abort(server, path, body)
            progress.n_gone += 1
            continue
        try:
            post(connection, path, body, progress.answers)
        except (http.client.HTTPException, OSError):
            progress.answers.statuses[0] += 1
            progress.answers.seconds.append(0.0)
            connection = server.connection()


def request(draw: random.Random, texts: list[str]) -> tuple[str, bytes]:
    """The path and body of a random request."""
    text = draw.choice(texts)
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("/v1/generate", {"text": text, "split": False}),
        ("/v1/generate", {"text": text, "nbest": 4, "fields": ["tokens", "pieces", "log_probs"]}),
        ("/v1/generate", {"text": text, "stream": True}),
        ("/v1/generate", {"text": text, "fields": ["align", "attention"]}),
        ("/v1/generate", {"text": " ".join(draw.choices(texts, k=3)), "deadline": 30}),
        ("/v1/score", {"pairs": [{"src": text, "tgt": text}]}),
        ("/translate", {"q": text, "source": "en", "target": "de"}),
    ]
    path, body = draw.choice(kinds)
    return path, json.dumps(body).encode()


def abort(server: Server, path: str, body: bytes) -> None:
    """Send a request and close the connection immediately."""
    connection = server.connection()
    connection.request("POST", path, body, {"content-type": "application/json"})
    connection.close()


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    main(given.get("run", "demo"), int(given.get("requests", "20000")))
