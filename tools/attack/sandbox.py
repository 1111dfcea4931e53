"""A command in a forked child: its own folder, streams and limits, since it may hang, crash, or be killed."""

from __future__ import annotations

import faulthandler
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from harness.processor_time import scheduled
from harness.tiny_runs import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CPU_SECONDS = 40
"""A child that computes for longer hangs; the longest case takes 3 s"""
IDLE_SECONDS = 120
"""So does one that, for so long, neither computes nor waits for a processor: a verdict is the same on a busy machine"""
WALL_SECONDS = 1800
"""So does one that wakes up now and then, and is not done after so long"""
MEMORY = 6 << 30
"""Bytes of address space beyond which a child runs out of memory"""


class Limits(NamedTuple):
    """What a child may take."""

    cpu_seconds: int
    memory: int
    """Bytes of address space"""


class Ended(NamedTuple):
    """How a command ended."""

    command: str
    code: int
    """Negative: the signal that ended it"""
    out: str
    err: str
    is_late: bool = False


class Child:
    """A command under way in `folder`."""

    def __init__(
        self,
        folder: Path,
        command: str,
        arguments: Sequence[str],
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.command, self.began = command, time.monotonic()
        self.streams = Path(tempfile.mkdtemp(prefix="streams-", dir=folder.parent))
        for name in ("out", "err"):  # here, since the child may be killed before it could
            (self.streams / name).touch(0o600)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads; ours are idle
            self.pid = os.fork()
        if not self.pid:
            _become(folder, self.streams, command, arguments, env or {}, limits)
        self.waits = os.pidfd_open(self.pid)

    def is_running(self, seconds: float) -> bool:
        """Whether it still runs after so many seconds."""
        return not select.select([self.waits], [], [], seconds)[0]

    def cpu_seconds(self) -> float:
        """What its main thread has computed so far: where it is in its work, whatever else the machine does."""
        try:
            return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[0]) / 1e9
        except (OSError, IndexError):
            return float("inf")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; it is ours until `end`, even when it is done."""
        os.kill(self.pid, number)

    def end(self) -> Ended:
        """Wait for it, and end one that hangs."""
        is_late = self._hangs()
        if is_late:
            self.signal(signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.waits)
        out, err = ((self.streams / name).read_bytes().decode(errors="replace") for name in ("out", "err"))
        for name in ("out", "err"):
            (self.streams / name).unlink()
        self.streams.rmdir()
        return Ended(self.command, code, out, err, is_late or code == -signal.SIGXCPU)

    def _hangs(self) -> bool:
        """Wait until it ends, or hangs."""
        before, since = -1, time.monotonic()
        while self.is_running(0.5):
            after = scheduled(self.pid)
            before, since = after, (since if after == before else time.monotonic())
            if time.monotonic() - since > IDLE_SECONDS or time.monotonic() - self.began > WALL_SECONDS:
                return True
        return False


def run(
    folder: Path,
    command: str,
    arguments: Sequence[str],
    env: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Ended:
    """A command in a child of its own, from beginning to end."""
    return Child(folder, command, arguments, env, limits).end()


def address_space() -> int:
    """Bytes of address space that this process has, and a child forked from it."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def run_command(folder: Path, command: str, arguments: Sequence[str], env: Mapping[str, str] | None = None) -> Ended:
    """The command as a shell starts it, which takes some seconds; what no shell can give it goes to a fork."""
    if any("\0" in argument for argument in arguments):
        return run(folder, command, arguments, env)
    script, environment = Path(sys.executable).with_name(command), {**os.environ, **(env or {})}
    with subprocess.Popen(
        [script, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=-1,
        stderr=-1,
        preexec_fn=_limit,
    ) as process:
        try:
            out, err = process.communicate(timeout=WALL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return Ended(command, process.wait(), "", "", is_late=True)
    said = (stream.decode(errors="replace") for stream in (out, err))
    return Ended(command, process.returncode, *said, is_late=process.returncode == -signal.SIGXCPU)


def _limit(limits: Limits | None = None) -> None:
    """What a command may take."""
    cpu_seconds, memory = limits or Limits(CPU_SECONDS, MEMORY)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _become(
    folder: Path,
    streams: Path,
    command: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    limits: Limits | None,
) -> None:
    """Be the command; never returns."""
    code = 3
    try:
        _limit(limits)
        faulthandler.disable()  # it would write to pytest's own stream
        torch.set_num_threads(1)  # the parent's threads did not come along
        os.chdir(folder)
        os.environ.update(env)
        for descriptor, name in enumerate((os.devnull, streams / "out", streams / "err")):
            os.dup2(os.open(name, os.O_RDWR), descriptor)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        sys.argv = [command, *arguments]
        code = COMMANDS[command](arguments)
        sys.stdout.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(code)
