"""The common part of serve_load.py and serve_soak.py: the server process, a request, and the kernel's figures."""

from __future__ import annotations

__all__ = ["Answers", "Server", "post", "sentences", "serving", "started"]

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

TICKS = os.sysconf("SC_CLK_TCK")
HEADERS = {"content-type": "application/json"}


@dataclass(frozen=True)
class Server:
    """A running s2s-serve; all figures are read from the kernel, in /proc."""

    port: int
    pid: int

    def connection(self, timeout: float = 120) -> http.client.HTTPConnection:
        """Open a connection over the loopback."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    @property
    def cpu_seconds(self) -> float:
        """User and system CPU seconds of all threads since the process started."""
        after_name = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / TICKS

    @property
    def memory(self) -> float:
        """Resident memory in megabytes."""
        return self._status("VmRSS") / 1024

    @property
    def n_threads(self) -> int:
        """Current number of threads."""
        return self._status("Threads")

    @property
    def n_files(self) -> int:
        """Number of open files and sockets."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


@dataclass
class Answers:
    """Latencies of answered requests, and counts of status codes; an incomplete response counts as status 0."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    def quantile(self, share: float) -> float:
        """A quantile of the latencies, in milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def extend(self, other: Answers) -> None:
        """Add the results of another round."""
        self.seconds += other.seconds
        self.statuses += other.statuses


def post(connection: http.client.HTTPConnection, path: str, body: bytes, found: Answers) -> bytes:
    """Send one request; its latency is measured until the last byte of the response."""
    begun = time.monotonic()
    connection.request("POST", path, body, HEADERS)
    answer = connection.getresponse()
    content = answer.read()
    found.seconds.append(time.monotonic() - begun)
    found.statuses[answer.status] += 1
    return content


def generate_body(text: str) -> bytes:
    """The body of a request for one sentence's best output."""
    return json.dumps({"text": text, "split": False}).encode()


def serving(run: str, *options: str) -> AbstractContextManager[Server]:
    """Start s2s-serve on a free port; see `started`."""
    return started("-m", "s2s_serve.command", f"run={{en-de: {run}}}", "port=0", *options)


@contextmanager
def started(*arguments: str, python: str = sys.executable) -> Iterator[Server]:
    """Start a Python program that serves; yields it when it says where, and checks that it exits without an error."""
    command = [python, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            print(line, end="", flush=True)
            if line.startswith("serving"):
                break
        port = int(line.rpartition(":")[2])
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield Server(port, process.pid)
        finally:
            process.terminate()
        assert process.wait(60) in (0, -signal.SIGTERM), "it ends well"


def sentences(n: int) -> list[str]:
    """English sentences of the built-in grammar that are in no run's training data."""
    command = [sys.executable, "-m", "s2s_synthetic_corpus", str(n), "--split", "test", "--side", "en"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
