"""s2s-serve under load, over the loopback: python benchmarks/serve_load.py run=demo seconds=10 rounds=3.

For 1, 8, 32 and 256 clients, each with a connection of its own and one sentence per request: requests per second,
median and 95th percentile of the latency, and the server's CPU time per request; the same with CTranslate2 behind a few
lines of FastAPI (serve_peer.py), with the model that s2s-export run=demo format=ctranslate2 wrote, or that in the
folder exported=; with libretranslate=PYTHON, with LibreTranslate (serve_libretranslate.py), whose route both have then.
Both servers run all the time and take turns, so that other load affects both equally; the idle one uses no CPU time.
lines=FILE: sentences of a file, one per line, in place of those of the built-in grammar.
Then malformed=10000 malformed requests from 8 clients, while one sends valid ones; malformed=0: none.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from serve_process import Answers, Server, generate_body, post, sentences, serving, started

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENTS = (1, 8, 32, 256)
PATHS = ("/v1/generate", "/v1/score", "/v1/parse", "/translate", "/detect")


class Route(NamedTuple):
    """What clients send a sentence to."""

    path: str
    body: Callable[[str], bytes]
    """The request for the best output of a sentence"""


def libretranslate_body(text: str) -> bytes:
    """A body of LibreTranslate's route."""
    return json.dumps({"q": text, "source": "en", "target": "de"}).encode()


OWN, LIBRETRANSLATE = Route("/v1/generate", generate_body), Route("/translate", libretranslate_body)


@dataclass
class Load:
    """The measurements of all rounds for one server and one number of clients."""

    answers: Answers = field(default_factory=Answers)
    wall: float = 0.0
    cpu: float = 0.0

    def row(self, n_clients: int, backend: str, server: Server) -> str:
        """A row of the table."""
        n, answers = len(self.answers.seconds), self.answers
        return (
            f"| {n_clients} | {backend} | {n / self.wall:.1f} | {answers.quantile(0.5):,.0f} ms | "
            f"{answers.quantile(0.95):,.0f} ms | {1000 * self.cpu / n:.1f} ms | {server.memory:.0f} MB | "
            f"{', '.join(f'{k} × {status}' for status, k in answers.statuses.items())} |"
        )


def main(
    run: str, exported: str, seconds: float, rounds: int, n_malformed: int, texts: list[str], libretranslate: str
) -> None:
    """Run all measurements and print them. libretranslate: a Python that has it; empty: the peer is serve_peer.py."""
    name, route = ("libretranslate", LIBRETRANSLATE) if libretranslate else ("ctranslate2", OWN)
    script = Path(__file__).with_name("serve_libretranslate.py" if libretranslate else "serve_peer.py")
    with serving(run):  # a first start, so that the next needs no torch
        pass
    with ExitStack() as stack:
        peer = started(str(script), exported, python=libretranslate or sys.executable)
        servers = {"s2s": stack.enter_context(serving(run)), name: stack.enter_context(peer)}
        for server in servers.values():
            load(server, route, texts, 32, 3.0)  # warm
        print("| clients | engine | requests/s | p50 | p95 | CPU a request | memory | answers |")
        print("|---:|---|---:|---:|---:|---:|---:|---|", flush=True)
        for n_clients in CLIENTS:
            found = {name: Load() for name in servers}
            for name, server in [*servers.items()] * rounds:
                measure(found[name], server, route, texts, n_clients, seconds)
            for name, server in servers.items():
                print(found[name].row(n_clients, name, server), flush=True)
            print(ratios(*found.values()), flush=True)
        if n_malformed:
            malformed(servers["s2s"], texts, n_malformed)


def ratios(ours: Load, theirs: Load) -> str:
    """How many times as good we are as the other server, as a row of the table."""
    more = len(ours.answers.seconds) / len(theirs.answers.seconds)
    p50, p95 = (theirs.answers.quantile(share) / ours.answers.quantile(share) for share in (0.5, 0.95))
    rate, cpu = more * theirs.wall / ours.wall, more * theirs.cpu / ours.cpu
    return f"| | ratio | {rate:.2f} | {p50:.2f} | {p95:.2f} | {cpu:.2f} | | |"


def measure(found: Load, server: Server, route: Route, texts: list[str], n_clients: int, seconds: float) -> None:
    """Run one round and add it to the measurements."""
    begun, cpu = time.monotonic(), server.cpu_seconds
    found.answers.extend(load(server, route, texts, n_clients, seconds))
    found.wall += time.monotonic() - begun
    found.cpu += server.cpu_seconds - cpu


def load(server: Server, route: Route, texts: list[str], n_clients: int, seconds: float) -> Answers:
    """Run clients that send each request as soon as the previous one is answered."""
    found, over = Answers(), threading.Event()
    threads = [threading.Thread(target=client, args=(server, route, texts, over, found, i)) for i in range(n_clients)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    over.set()
    for thread in threads:
        thread.join()
    return found


def client(
    server: Server, route: Route, texts: list[str], over: threading.Event, found: Answers, first: int = 0
) -> None:
    """Send requests over one connection."""
    connection = server.connection()
    for number in count(first * 37):
        if over.is_set():
            return
        post(connection, route.path, route.body(texts[number % len(texts)]), found)


def malformed(server: Server, texts: list[str], n: int) -> None:
    """Send malformed bodies from 8 clients, together with valid requests."""
    bad, good, over, begun, before = Answers(), Answers(), threading.Event(), time.monotonic(), server.memory
    numbers, lock = iter(range(n)), threading.Lock()

    def send_malformed(seed: int) -> None:
        draw, connection = random.Random(seed), server.connection()
        while True:
            with lock:
                if next(numbers, None) is None:
                    return
            try:
                post(connection, draw.choice(PATHS), malformed_body(draw), bad)
            except (http.client.HTTPException, OSError):  # a connection that was closed with 413
                connection = server.connection()
                bad.statuses[0] += 1

    threads = [threading.Thread(target=send_malformed, args=(seed,)) for seed in range(8)]
    probe = threading.Thread(target=client, args=(server, OWN, texts, over, good))
    for thread in [*threads, probe]:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    probe.join()
    print(f"{n:,} malformed requests in {time.monotonic() - begun:.1f} s: {dict(sorted(bad.statuses.items()))}")
    print(
        f"good ones beside them: {dict(good.statuses)}, p50 {good.quantile(0.5):.0f} ms, p99 {good.quantile(0.99):.0f} "
        f"ms, slowest {good.quantile(1):.0f} ms; memory {before:.0f} MB before, {server.memory:.0f} MB after",
        flush=True,
    )


def malformed_body(draw: random.Random) -> bytes:
    """A malformed body: truncated JSON, invalid UTF-8, wrong types or sizes, deep nesting, unknown fields, too long."""
    kind = draw.randrange(8)
    if kind == 0:
        whole = json.dumps({"text": "the old cat", "nbest": 2, "q": "a", "pairs": []}).encode()
        return whole[: draw.randrange(len(whole))]
    if kind == 1:
        return draw.randbytes(draw.randrange(200))
    if kind == 2:
        return b"[" * draw.randrange(1, 50_000)
    if kind == 3:
        return json.dumps({"text": draw.choice([None, 1, {}, [1], [[]], True]), "q": 5}).encode()
    if kind == 4:
        return json.dumps({"text": "a", "unknown": 1, "target": 1, "q": ["a", 1]}).encode()
    if kind == 5:
        return b'{"text": "\\ud800", "q": "\\udfff", "target": "de", "source": "en"}'
    if kind == 6:
        return json.dumps({"text": "word " * 10_000, "q": "word " * 10_000, "pairs": []}).encode()
    return json.dumps({"text": "a", "nbest": draw.choice([-1, 0, 1e9, "x"]), "q": "", "alternatives": -1}).encode()


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    run = given.get("run", "demo")
    main(
        run,
        given.get("exported", str(Path("runs", run, "export", "ctranslate2"))),
        float(given.get("seconds", "10")),
        int(given.get("rounds", "3")),
        int(given.get("malformed", "10000")),
        Path(given["lines"]).read_text().splitlines() if "lines" in given else sentences(400),
        given.get("libretranslate", ""),
    )
