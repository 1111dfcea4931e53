"""Futures of another thread that are done together wake the event loop once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest

from s2s_serve.wakeups import Wakeups


def test_results_and_errors_are_those_of_the_futures() -> None:
    async def talk() -> list[Any]:
        wakeups, futures = Wakeups(), [Future[int]() for _ in range(4)]
        waiting = [asyncio.create_task(wakeups.result(future)) for future in futures]
        await asyncio.sleep(0)

        def resolve() -> None:
            futures[0].set_result(5)
            futures[1].set_exception(ValueError("wrong"))
            futures[2].cancel()
            futures[3].set_result(7)
            wakeups.flush()

        thread = threading.Thread(target=resolve)
        thread.start()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        thread.join()
        return results

    first, second, third, fourth = asyncio.run(talk())
    assert (first, fourth) == (5, 7)
    assert isinstance(second, ValueError)
    assert isinstance(third, asyncio.CancelledError)


def test_those_that_are_done_together_wake_the_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    woken = []

    async def talk() -> list[int]:
        wakeups, futures = Wakeups(), [Future[int]() for _ in range(5)]
        waiting = [asyncio.create_task(wakeups.result(future)) for future in futures]
        await asyncio.sleep(0)
        write = wakeups._write
        monkeypatch.setattr(wakeups, "_write", lambda *given: woken.append(given) or write(*given))
        for number, future in enumerate(futures[:4]):
            future.set_result(number)
            assert not woken
        wakeups.flush()
        wakeups.flush()
        found = list(await asyncio.gather(*waiting[:4]))
        assert len(woken) == 1
        futures[4].set_result(4)
        wakeups.flush()
        return [*found, await waiting[4]]

    assert asyncio.run(talk()) == [0, 1, 2, 3, 4]
    assert len(woken) == 2


def test_waking_the_loop_does_not_release_the_interpreters_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wake-up goes to a full pipe here, and so takes until another process reads, half a second after
    `flush` begins; no thread runs meanwhile."""
    reads_late = "import os, sys, time; os.read(int(sys.argv[1]), 1); time.sleep(0.5); sys.stdin.buffer.read()"
    waiting_for, begin = os.pipe()
    n_turns, over = 0, threading.Event()

    def take_turns() -> None:
        nonlocal n_turns
        while not over.wait(0.001):
            n_turns += 1

    async def flush(full: int) -> tuple[float, int]:
        wakeups, future = Wakeups(), Future[int]()
        waiting = asyncio.create_task(wakeups.result(future))
        await asyncio.sleep(0)
        future.set_result(1)
        monkeypatch.setattr(wakeups, "_writing", full)
        begun, n_before = time.monotonic(), n_turns
        os.write(begin, b"\0")
        wakeups.flush()
        measured = time.monotonic() - begun, n_turns - n_before
        waiting.cancel()
        return measured

    command = [sys.executable, "-c", reads_late, str(waiting_for)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[waiting_for]) as reader:
        assert reader.stdin is not None
        full = reader.stdin.fileno()
        os.set_blocking(full, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full, bytes(1024))
        os.set_blocking(full, True)
        other = threading.Thread(target=take_turns)
        other.start()
        seconds, n_meanwhile = asyncio.run(flush(full))
        over.set()
        other.join()
    os.close(waiting_for)
    os.close(begin)
    assert seconds > 0.1
    assert n_meanwhile < 10


def test_a_loop_whose_wakeup_another_has_read_goes_on() -> None:
    resumed = threading.Thread(target=Wakeups()._resume, daemon=True)
    resumed.start()
    resumed.join(10)
    assert not resumed.is_alive()


def test_the_loop_is_woken_again_after_a_write_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk() -> int:
        wakeups, future = Wakeups(), Future[int]()
        waiting = asyncio.create_task(wakeups.result(future))
        await asyncio.sleep(0)
        future.set_result(5)
        with monkeypatch.context() as patch:
            patch.setattr(wakeups, "_write", lambda *_: -1)
            wakeups.flush()
        wakeups.flush()
        return await asyncio.wait_for(waiting, 10)

    assert asyncio.run(talk()) == 5


def test_a_future_that_is_done_already_has_its_result() -> None:
    async def talk() -> int:
        future = Future[int]()
        future.set_result(3)
        return await asyncio.wait_for(Wakeups().result(future), 60)

    assert asyncio.run(talk()) == 3


def test_cancelling_the_call_cancels_the_future() -> None:
    async def talk() -> Future[int]:
        future = Future[int]()
        task = asyncio.create_task(Wakeups().result(future))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return future

    assert asyncio.run(talk()).cancelled()
