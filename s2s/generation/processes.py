"""Worker processes created by fork: they share the memory of this process, and nothing is pickled."""

from __future__ import annotations

__all__ = ["n_useful_processes", "run_in_processes"]

import json
import os
import selectors
import signal
import threading
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any

from s2s.errors import UserError
from s2s.io.parent import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


def run_in_processes(functions: Sequence[Callable[[], Iterable[Any]]]) -> Iterator[Any]:
    """The values that the functions yield, in order of arrival; each function runs in a process of its own.

    Values are passed as JSON. The calling process must have no threads that hold locks: torch with one thread, no CUDA.
    Raises RuntimeError if a function raises or its process is killed, but UserError if the function raises one.
    """
    with selectors.DefaultSelector() as pipes:
        children = [_fork(function, pipes) for function in functions]
        try:
            while pipes.get_map():
                for key, _ in pipes.select():
                    yield from _read(key, pipes)
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)  # it has finished, or its values are no longer needed
                os.waitpid(child, 0)
            for key in list(pipes.get_map().values()):
                os.close(key.fd)


def n_useful_processes(most: int, work: Callable[[], object]) -> int:
    """How many processes, at most `most`, can currently run in parallel on this machine, measured with `work`."""

    def seconds() -> list[float]:
        times = []
        for _ in range(6):
            begun = time.monotonic()
            for _ in range(5):
                work()
            times.append(time.monotonic() - begun)
        return [sorted(times[1:])[2]]  # the median; the first includes one-time costs of a process

    if most <= 1:
        return 1
    (alone,), together = seconds(), list(run_in_processes([seconds] * most))
    return max(1, min(most, round(most * alone / max(together))))


def _fork(function: Callable[[], Iterable[Any]], pipes: selectors.BaseSelector) -> int:
    reading, writing = os.pipe()
    outlives_workers = threading.current_thread() is threading.main_thread()  # as another thread need not
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns about threads, but there are none
        child = os.fork()
    if child:
        os.close(writing)
        pipes.register(reading, selectors.EVENT_READ, bytearray())
        return child
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # When the parent is killed, this process ends, too: it holds the lock of the parent's output. On Linux it ends
        # at once; elsewhere when it writes to a pipe that no process reads, which is why it must not read one itself.
        if outlives_workers:
            end_with_parent(signal.SIGKILL)
        for reader in (reading, *(key.fd for key in pipes.get_map().values())):
            os.close(reader)
        _send(function, writing)
    finally:
        os._exit(0)  # without the parent's atexit handlers and unflushed buffers


def _send(function: Callable[[], Iterable[Any]], writing: int) -> None:
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        try:
            for value in function():
                pipe.write(json.dumps({"value": value}) + "\n")
                pipe.flush()
            pipe.write(json.dumps({"end": True}) + "\n")
        except UserError as error:
            pipe.write(json.dumps({"refused": str(error)}) + "\n")
        except Exception:
            pipe.write(json.dumps({"error": traceback.format_exc()}) + "\n")


def _read(key: selectors.SelectorKey, pipes: selectors.BaseSelector) -> Iterator[Any]:
    """The values whose lines have arrived completely."""
    received, buffer = os.read(key.fd, 1 << 16), key.data
    *lines, partial = (buffer + received).split(b"\n")
    buffer[:] = partial
    for message in map(json.loads, lines):
        if "refused" in message:
            raise UserError(message["refused"])
        if "error" in message:
            raise RuntimeError(f"a worker failed:\n{message['error']}")
        if "end" in message:
            pipes.unregister(key.fd)
            os.close(key.fd)
            return
        yield message["value"]
    if not received:
        raise RuntimeError(
            "a worker ended before its work was done; was it killed, or is there too little memory? Try workers=1"
        )
