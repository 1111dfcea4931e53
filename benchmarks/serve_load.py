"""How s2s-serve stands load, over the loopback: python benchmarks/serve_load.py run=demo.

For 1, 8 and 64 clients, each with a connection of its own and one sentence a request: requests a second, median and
99th percentile of the latency, and the server's memory; the same with CTranslate2 behind the same server, from what
s2s-export run=demo format=ctranslate2 wrote. Then 10,000 malformed requests from 8 clients, while one sends good ones.
"""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = (1, 8, 64)
N_MALFORMED = 10_000
HEADERS = {"content-type": "application/json"}
PATHS = ("/v1/generate", "/v1/score", "/v1/parse", "/translate", "/detect")


@dataclass
class Measured:
    """Latencies of answered requests, and how they were answered."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    def quantile(self, share: float) -> float:
        """In milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main(run: str, seconds: float) -> None:
    """Print all figures."""
    texts = sentences(400)
    for backend in ("native", "ctranslate2"):
        with server(run, f"generate.backend={backend}") as port:
            load(port, texts, 4, 5.0)  # warm
            print(f"{backend}: {memory(port) / 1e6:.0f} MB after the warm-up", flush=True)
            for n_clients in CLIENTS:
                begun = time.monotonic()
                found = load(port, texts, n_clients, seconds)
                rate = len(found.seconds) / (time.monotonic() - begun)
                print(
                    f"{backend} {n_clients:3d} clients: {rate:6.1f} requests/s, p50 {found.quantile(0.5):7.1f} ms, "
                    f"p99 {found.quantile(0.99):7.1f} ms, {memory(port) / 1e6:.0f} MB, {dict(found.statuses)}",
                    flush=True,
                )
            if backend == "native":
                malformed(port, texts)


def malformed(port: int, texts: list[str]) -> None:
    """Broken bodies from 8 clients, and good requests beside them."""
    bad, good, over, begun = Measured(), Measured(), threading.Event(), time.monotonic()
    numbers = iter(range(N_MALFORMED))
    lock = threading.Lock()

    def break_things(seed: int) -> None:
        draw, connection = random.Random(seed), http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while True:
            with lock:
                if next(numbers, None) is None:
                    return
            try:
                post(connection, draw.choice(PATHS), broken(draw), bad)
            except (http.client.HTTPException, OSError):  # a connection that was closed with 413
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                bad.statuses[0] += 1

    threads = [threading.Thread(target=break_things, args=(seed,)) for seed in range(8)]
    probe = threading.Thread(target=client, args=(port, texts, over, good))
    for thread in [*threads, probe]:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    probe.join()
    took = time.monotonic() - begun
    print(f"{N_MALFORMED:,} malformed requests in {took:.1f} s: {dict(sorted(bad.statuses.items()))}")
    print(
        f"good ones beside them: {dict(good.statuses)}, p50 {good.quantile(0.5):.1f} ms, "
        f"p99 {good.quantile(0.99):.1f} ms, slowest {good.quantile(1):.1f} ms; {memory(port) / 1e6:.0f} MB",
        flush=True,
    )


def broken(draw: random.Random) -> bytes:
    """JSON cut short, bytes that are no UTF-8, wrong types and sizes, deep nesting, unknown fields, far too much."""
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


def load(port: int, texts: list[str], n_clients: int, seconds: float) -> Measured:
    """Every client sends a request as soon as the one before is answered."""
    found, over = Measured(), threading.Event()
    threads = [threading.Thread(target=client, args=(port, texts, over, found, i)) for i in range(n_clients)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    over.set()
    for thread in threads:
        thread.join()
    return found


def client(port: int, texts: list[str], over: threading.Event, found: Measured, first: int = 0) -> None:
    """One connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for number in count(first * 37):
        if over.is_set():
            return
        body = json.dumps({"text": texts[number % len(texts)], "split": False}).encode()
        post(connection, "/v1/generate", body, found)


def post(connection: http.client.HTTPConnection, path: str, body: bytes, found: Measured) -> None:
    """One request, measured until the last byte of its answer."""
    begun = time.monotonic()
    connection.request("POST", path, body, HEADERS)
    answer = connection.getresponse()
    answer.read()
    found.seconds.append(time.monotonic() - begun)
    found.statuses[answer.status] += 1


def memory(port: int) -> float:
    """Resident bytes of the server."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return float(next(line for line in lines if line.startswith("s2s_process_resident")).split()[1])


@contextmanager
def server(run: str, *options: str) -> Iterator[int]:
    """The command, ready; its port."""
    command = [sys.executable, "-m", "s2s_serve.command", f"run={{en-de: {run}}}", "port=0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            print(line, end="")
            if line.startswith("serving"):
                break
        port = int(line.rpartition(":")[2])
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield port
        process.terminate()
        assert process.wait(60) == 0, "it ends well"


def sentences(n: int) -> list[str]:
    """English sentences of the built-in grammar that no run has seen."""
    command = [sys.executable, "-m", "s2s_synthetic_corpus", str(n), "--split", "test", "--side", "en"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    main(given.get("run", "demo"), float(given.get("seconds", "30")))
