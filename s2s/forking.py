"""Work in processes that begin as copies of this one: what is in memory is shared, and nothing is sent to them."""

from __future__ import annotations

__all__ = ["in_forks", "n_that_pay"]

import json
import os
import selectors
import signal
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


def in_forks(parts: Sequence[Callable[[], Iterable[Any]]]) -> Iterator[Any]:
    """What the parts give, each in a process of its own, as soon as it is there.

    This process must have no threads that hold locks: torch with one thread, and no CUDA.
    """
    with selectors.DefaultSelector() as pipes:
        children = [_fork(part, pipes) for part in parts]
        try:
            while pipes.get_map():
                for key, _ in pipes.select():
                    yield from _read(key, pipes)
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)  # done, or no longer wanted
                os.waitpid(child, 0)
            for key in list(pipes.get_map().values()):
                os.close(key.fd)


def n_that_pay(most: int, work: Callable[[], object]) -> int:
    """How many processes this machine can now give its time to, at most `most`, measured with `work`."""

    def seconds() -> list[float]:
        begun = time.monotonic()
        for _ in range(5):
            work()
        return [time.monotonic() - begun]

    if most <= 1:
        return 1
    work()
    (alone,), together = seconds(), list(in_forks([seconds] * most))
    return max(1, min(most, round(most * alone / max(together))))


def _fork(part: Callable[[], Iterable[Any]], pipes: selectors.BaseSelector) -> int:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 fears threads, of which there are none
        child = os.fork()
    if child:
        os.close(writing)
        pipes.register(reading, selectors.EVENT_READ, bytearray())
        return child
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _give(part, writing)
    finally:
        os._exit(0)  # without the parent's own endings, such as what it has yet to write


def _give(part: Callable[[], Iterable[Any]], writing: int) -> None:
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        try:
            for value in part():
                pipe.write(json.dumps({"value": value}) + "\n")
                pipe.flush()
            pipe.write(json.dumps({"end": True}) + "\n")
        except Exception:
            pipe.write(json.dumps({"error": traceback.format_exc()}) + "\n")


def _read(key: selectors.SelectorKey, pipes: selectors.BaseSelector) -> Iterator[Any]:
    """The values that have come whole."""
    some, rest = os.read(key.fd, 1 << 16), key.data
    *lines, last = (rest + some).split(b"\n")
    rest[:] = last
    for message in map(json.loads, lines):
        if "error" in message:
            raise RuntimeError(f"a worker failed:\n{message['error']}")
        if "end" in message:
            pipes.unregister(key.fd)
            os.close(key.fd)
            return
        yield message["value"]
    if not some:
        raise RuntimeError("a worker ended before its work was done; was it killed, or is there too little memory?")
