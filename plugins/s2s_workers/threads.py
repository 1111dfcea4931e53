"""Threads of this process: functions in C, and torch's own, let other threads of Python run."""

from __future__ import annotations

__all__ = ["run_in_threads"]

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Value = TypeVar("Value")


def run_in_threads(functions: Sequence[Callable[[], Iterable[Value]]]) -> Iterator[Value]:
    """The values that the functions yield, each function in a thread of its own, in the order of their arrival.

    Raises what a function raises, once the others have come to their next value; so they do when no more is wanted.
    """
    found: SimpleQueue[list[Value]] = SimpleQueue()  # no value: a function has ended
    is_over = False

    def work(function: Callable[[], Iterable[Value]]) -> None:
        try:
            for value in function():
                found.put([value])
                if is_over:
                    return
        finally:
            found.put([])

    with ThreadPoolExecutor(len(functions)) as pool:
        running = [pool.submit(work, function) for function in functions]
        try:
            n_running = len(running)
            while n_running and not any(one.done() and one.exception() for one in running):
                values = found.get()
                n_running -= not values
                yield from values
        finally:
            is_over = True
    for one in running:
        one.result()
