"""The ranks of one machine as child processes: started, signalled and ended together.

They find each other through a file that only this user can open, and communicate over the loopback interface: nothing
that a single-machine run opens can be reached from elsewhere. torchrun's agent would listen on every interface, and
unpickle what it receives.
"""

from __future__ import annotations

__all__ = ["LocalRanks"]

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.io import end_with_parent
from s2s_distributed.rendezvous import STORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
"""Forwarded to every rank"""
POLL_SECONDS = 0.1
KILL_SECONDS = 30.0
"""Seconds until ranks that outlive a failed one are killed"""


@dataclass
class LocalRanks:
    """`python *command` in `n` processes, each with its rank in the environment, as set by torchrun.

    private: a directory that only this user can enter.
    """

    command: Sequence[str]
    n: int
    private: Path
    shutdown_seconds: float
    """Seconds until ranks that continue after a signal are killed: they may be saving"""
    received: list[int] = field(default_factory=list)
    """Signals, in order of arrival"""
    n_forwarded: int = 0
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    deadline: float = float("inf")

    def run(self) -> dict[int, int]:
        """Wait until every rank has ended; the nonzero exit codes, negative for a signal.

        When one rank fails, the others are ended with SIGTERM.
        """
        with self._forwarding():
            try:
                self.children = [self._start(rank) for rank in range(self.n)]
                return self._wait()
            finally:
                self._send(signal.SIGKILL)

    def _start(self, rank: int) -> subprocess.Popen[bytes]:
        # in a session of its own: Ctrl-C reaches only the launcher, which forwards it once
        return subprocess.Popen(
            [sys.executable, *self.command],
            env={**os.environ, **self._environment(rank)},
            start_new_session=True,
            preexec_fn=partial(end_with_parent, signal.SIGKILL),  # a rank that is left alone would hold the run's lock
        )

    def _environment(self, rank: int) -> Mapping[str, str]:
        loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
        interface = {name: os.environ.get(name, loopback) for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")}
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self.n, "LOCAL_WORLD_SIZE": self.n}
        return {**interface, **{name: str(n) for name, n in ranks.items()}, STORE: str(self.private / "store")}

    def _wait(self) -> dict[int, int]:
        failed = False
        while any(child.poll() is None for child in self.children):
            self._forward()
            if not failed and self._failures() and not self.received:
                failed = True
                self._send(signal.SIGTERM)
                self.deadline = time.monotonic() + KILL_SECONDS
            if time.monotonic() > self.deadline:
                self._send(signal.SIGKILL)
            time.sleep(POLL_SECONDS)
        return self._failures()

    def _failures(self) -> dict[int, int]:
        return {rank: child.returncode for rank, child in enumerate(self.children) if child.poll()}

    @contextmanager
    def _forwarding(self) -> Iterator[None]:
        record = lambda number, _: self.received.append(number)  # noqa: E731
        before = {number: signal.signal(number, record) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _forward(self) -> None:
        """Send new signals to every rank, each as often as received: a second one makes a rank exit without saving."""
        for number in self.received[self.n_forwarded :]:
            self.n_forwarded += 1
            self.deadline = min(self.deadline, time.monotonic() + self.shutdown_seconds)
            self._send(number)

    def _send(self, number: int) -> None:
        for child in self.children:
            if child.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, number)
