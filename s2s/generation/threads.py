"""Threads of this process: functions in C, and torch's own, let other Python threads run."""

from __future__ import annotations

__all__ = ["run_in_threads"]

from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Value = TypeVar("Value")


@dataclass
class ThreadResult(Generic[Value]):
    """What a function yielded; or, without a value, that it has ended, and with which error."""

    values: list[Value]
    error: BaseException | None = None


def run_in_threads(functions: Sequence[Callable[[], Iterable[Value]]]) -> Iterator[Value]:
    """The values that the functions yield, in order of arrival; each function runs in a thread of its own.

    Raises what a function raises. The others then end at their next value, as they do when no more values are wanted; a
    program that exits does not wait for them.
    """
    arrived, is_over = SimpleQueue[ThreadResult[Value]](), Event()
    threads = [Thread(target=_work, args=(function, arrived, is_over), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    try:
        n_running = len(threads)
        while n_running:
            one = arrived.get()
            if one.error:
                raise one.error
            n_running -= not one.values
            yield from one.values
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def _work(function: Callable[[], Iterable[Value]], arrived: SimpleQueue[ThreadResult[Value]], is_over: Event) -> None:
    try:
        for value in function():
            arrived.put(ThreadResult([value]))
            if is_over.is_set():
                return
        arrived.put(ThreadResult([]))
    except BaseException as error:
        arrived.put(ThreadResult([], error))
