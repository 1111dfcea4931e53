"""Futures of another thread that are done together wake the event loop once."""

from __future__ import annotations

import asyncio
import threading
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
        loop, wakeups, futures = asyncio.get_running_loop(), Wakeups(), [Future[int]() for _ in range(5)]
        waiting = [asyncio.create_task(wakeups.result(future)) for future in futures]
        await asyncio.sleep(0)
        wake = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda call: woken.append(call) or wake(call))
        for number, future in enumerate(futures):
            future.set_result(number)
        assert not woken
        wakeups.flush()
        wakeups.flush()  # nothing is left to do, which only the loop knows
        return await asyncio.gather(*waiting)

    assert asyncio.run(talk()) == [0, 1, 2, 3, 4]
    assert len(woken) == 2


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
