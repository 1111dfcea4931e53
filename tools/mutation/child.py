"""An action in a forked child that sees the copy of the tree, and may crash, hang, or use up memory."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from harness.folders import ROOT
from harness.processor_time import scheduled_in_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IDLE_SECONDS = 60
"""A child hangs that, for so long, neither computes nor waits for a processor, with all that it started"""
WALL_SECONDS = 900
"""A child that has not answered after so long is given up: it waits in a loop, or the machine is too busy"""
DATA_BYTES, FILE_BYTES = 8 << 30, 4 << 30
"""What a child may take of memory and of a file"""
LATE = "late"
"""The answer of a child that was given up"""


def run_in_child(root: Path, action: Callable[[], Any], cpu_seconds: float) -> Any:
    """What an action returned, through JSON; None if it hung, crashed, or computed for too long; or `LATE`."""
    reads, writes = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads; ours are idle
        pid = os.fork()
    if not pid:
        _become(root, action, writes, round(cpu_seconds))
    os.close(writes)
    try:
        return _answer(reads, pid)
    finally:
        os.close(reads)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # with what it left running
        os.waitpid(pid, 0)


def _answer(reads: int, pid: int) -> Any:
    """Wait for it; processes that it started may keep the pipe open."""
    text, began = b"", time.monotonic()
    before, since = -1, began
    while not text.endswith(b"\n"):
        if select.select([reads], [], [], 2)[0]:
            text += (block := os.read(reads, 1 << 16))
            if not block:
                return None
        elif (after := scheduled_in_session(pid)) != before:
            before, since = after, time.monotonic()
        if time.monotonic() - since > IDLE_SECONDS:
            return None
        if time.monotonic() - began > WALL_SECONDS:
            return LATE
    return json.loads(text)


def _become(root: Path, action: Callable[[], Any], writes: int, cpu_seconds: int) -> None:
    """Run an action in the copy, answer, and end; never returns."""
    try:
        os.setsid()
        os.chdir(root)
        limits = {resource.RLIMIT_DATA: DATA_BYTES, resource.RLIMIT_FSIZE: FILE_BYTES, resource.RLIMIT_CPU: cpu_seconds}
        for kind, limit in limits.items():
            resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))
        parts = [root / "tests", root / "tools", root, *sorted((root / "plugins").glob("*/")), root / "tasks"]
        sys.path[:0] = map(str, parts)
        os.environ["PYTHONPATH"] = os.pathsep.join(map(str, parts))  # for the commands that tests start
        forget_ours()
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)  # for our own mistakes
        for descriptor in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        answer = json.dumps(action(), default=list) + "\n"
        with open(writes, "w") as file:
            file.write(answer)
    except BaseException:
        traceback.print_exc(limit=-2)
    finally:
        os._exit(0)


def forget_ours() -> None:
    """The modules of the repository: the copy's are imported instead."""
    ours = [name for name, module in sys.modules.items() if is_under(ROOT, module)]
    for name in ours:
        if name != "__main__":
            del sys.modules[name]


def is_under(root: Path, module: object) -> bool:
    """Whether a module was imported from a file below a folder."""
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and file.startswith(f"{root}{os.sep}") and "site-packages" not in file
