from __future__ import annotations

import os
import signal
import threading
import time
from itertools import count
from typing import TYPE_CHECKING

import pytest

from s2s.io.prefetch import Job, prefetch

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_job_gives_what_the_work_gave_when_it_is_done() -> None:
    gate = threading.Event()
    job = Job(lambda: gate.wait(10) and 7)
    assert not job.is_done
    gate.set()
    assert job.result() == 7
    assert job.is_done


def test_a_process_may_end_though_a_job_does_not() -> None:
    gate = threading.Event()
    job = Job(lambda: gate.wait(30))
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "s2s-job"] == [True]
    gate.set()
    job.result()


def test_an_error_of_a_job_reaches_who_asks_for_its_result() -> None:
    def fail() -> None:
        raise OSError("no space left")

    job = Job(fail)
    for _ in range(2):
        with pytest.raises(OSError, match="no space left"):
            job.result()


def test_what_is_made_ahead_is_the_same_in_the_same_order() -> None:
    assert list(prefetch(iter(range(100)), 2, 10, late)) == list(range(100))
    assert list(prefetch(iter(()), 2, 10, late)) == []


def late() -> Exception:
    return TimeoutError("nothing came")


def test_no_more_is_made_ahead_than_was_asked_for_and_making_ends_with_the_asking() -> None:
    made: list[int] = []
    items = prefetch((made.append(i) or i for i in count()), 3, 10, late)  # type: ignore[func-returns-value]
    assert next(items) == 0
    until = time.monotonic() + 5
    while len(made) < 5 and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(0.02)
    assert len(made) == 5  # one taken, three ready, one that waits for room
    items.close()
    assert not [t for t in threading.enumerate() if t.name == "s2s-prefetch"]


def test_an_error_comes_when_its_turn_comes() -> None:
    def failing() -> Iterator[int]:
        yield from (1, 2)
        raise ValueError("corpus.en:3: not UTF-8")

    items = prefetch(failing(), 5, 10, late)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ValueError, match=r"corpus\.en:3"):
        next(items)


def test_what_hangs_is_told_after_the_timeout_and_not_waited_for() -> None:
    gate = threading.Event()

    def hanging() -> Iterator[int]:
        yield 1
        gate.wait(30)

    items = prefetch(hanging(), 2, 0.2, late)
    assert next(items) == 1
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="nothing came"):
        next(items)
    assert time.monotonic() - began < 5
    gate.set()


def test_a_signal_interrupts_who_waits_for_a_job() -> None:
    """It would wait for the job otherwise: a thread that sleeps in C code does not let Python handle it."""

    class HeardError(Exception):
        pass

    def hear(*_: object) -> None:
        raise HeardError

    gate = threading.Event()
    job = Job(lambda: gate.wait(30))
    before = signal.signal(signal.SIGUSR1, hear)
    try:
        killer = threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGUSR1])
        killer.start()
        with pytest.raises(HeardError):
            job.result()
        killer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
        gate.set()
    job.result()
