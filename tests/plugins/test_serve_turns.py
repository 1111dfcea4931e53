"""A request with a long list leaves the event loop, and places in the batch, to others."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from harness.small_server import client_of, tiny_server, train_run
from s2s_serve import turns
from s2s_serve.turns import AHEAD, in_order, in_turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return train_run(tmp_path_factory.mktemp("served"))


def test_others_have_a_turn_when_the_time_of_one_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Any] = []

    async def other() -> None:
        while len(events) < 8:
            events.append("other")
            await asyncio.sleep(0)

    async def talk(seconds: float) -> list[Any]:
        events.clear()
        monkeypatch.setattr(turns, "TURN", seconds)
        task = asyncio.create_task(other())
        async for item in in_turns(range(4)):
            events.append(item)
        await task
        return events[:7]

    assert asyncio.run(talk(-1.0)) == [0, "other", 1, "other", 2, "other", 3]
    assert asyncio.run(talk(60.0)) == [0, 1, 2, 3, "other", "other", "other"]


def test_results_are_in_order_and_few_calls_run_at_once() -> None:
    n_running = n_most = 0

    async def call(number: int) -> int:
        nonlocal n_running, n_most
        n_running += 1
        n_most = max(n_most, n_running)
        await asyncio.sleep(0.001 * (number * 7 % 5))
        n_running -= 1
        return number

    async def talk() -> list[int]:
        return [found async for found in in_order(call(i) for i in range(3 * AHEAD))]

    assert asyncio.run(talk()) == list(range(3 * AHEAD))
    assert 1 < n_most <= AHEAD


@pytest.mark.parametrize("failing", [True, False], ids=["one fails", "closed"])
def test_calls_that_are_no_longer_needed_are_cancelled(failing: bool) -> None:
    cancelled = []

    async def call(number: int) -> int:
        if number == 1 and failing:
            raise ValueError("wrong")
        try:
            await asyncio.sleep(0 if number < 2 else 60)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    async def talk() -> list[int]:
        found = []
        async with aclosing(in_order(call(i) for i in range(5))) as results:
            async for one in results:
                found.append(one)
                if one == 1:
                    break
        return found

    if failing:
        with pytest.raises(ValueError, match="wrong"):
            asyncio.run(talk())
    else:
        assert asyncio.run(talk()) == [0, 1]
    assert cancelled == [2, 3, 4]


LISTS = {
    "generate": ("/v1/generate", "text", {}),
    "translate": ("/translate", "q", {"source": "en", "target": "de"}),
    "html": ("/translate", "q", {"source": "en", "target": "de", "format": "html"}),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_few_sentences_in_the_batch(run: str, name: str) -> None:
    path, field, others = LISTS[name]
    server = tiny_server(run)
    (engine,) = server.engines.values()
    search, n_running, n_most = engine.search, 0, 0

    async def counted(*given: Any, **options: Any) -> Any:
        nonlocal n_running, n_most
        n_running += 1
        n_most = max(n_most, n_running)
        try:
            return await search(*given, **options)
        finally:
            n_running -= 1

    engine.search = counted  # type: ignore[method-assign]

    async def talk() -> Any:
        async with client_of(server) as client:
            return await client.post(path, json={field: ["the old dog. a cat."] * 60} | others)

    assert asyncio.run(talk()).status_code == 200
    assert 8 < n_most <= 16


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_let_in_as_a_whole(run: str, name: str) -> None:
    """It is answered though others take all room while it is searched, and with less room it is not begun."""
    path, field, others = LISTS[name]

    async def post(max_waiting: int) -> tuple[int, int, int]:
        server, n_searched, n_tokens = tiny_server(run, max_waiting=max_waiting), 0, 0
        (engine,) = server.engines.values()
        search = engine.search

        async def counted(*given: Any, **options: Any) -> Any:
            nonlocal n_searched, n_tokens
            n_tokens = n_tokens or engine.n_waiting
            n_searched += 1
            engine.n_waiting += max_waiting * (n_searched == 20)  # of another request
            return await search(*given, **options)

        engine.search = counted  # type: ignore[method-assign]
        async with client_of(server) as client:
            answer = await client.post(path, json={field: ["the old dog. a cat."] * 99} | others)
        return answer.status_code, n_searched, n_tokens

    status, n_searched, n_tokens = asyncio.run(post(50_000))
    assert (status, n_searched) == (200, 99)
    assert asyncio.run(post(n_tokens)) == (200, 99, n_tokens)
    assert asyncio.run(post(n_tokens - 1)) == (413, 0, 0)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_texts_of_several_lines_has_few_tasks(run: str, name: str) -> None:
    path, field, others = LISTS[name]

    async def talk() -> tuple[int, int]:
        async with client_of(tiny_server(run)) as client:
            n_before, n_most = len(asyncio.all_tasks()), 0
            long = asyncio.create_task(client.post(path, json={field: ["the old dog.\n" * 3] * 70} | others))
            while not long.done():
                n_most = max(n_most, len(asyncio.all_tasks()) - n_before)
                await asyncio.sleep(0)
            return (await long).status_code, n_most

    status, n_most = asyncio.run(talk())
    assert status == 200
    assert AHEAD < n_most < AHEAD + 8


@pytest.mark.parametrize("name", ["generate", "translate"])
def test_others_are_answered_beside_a_long_list(run: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, field, others = LISTS[name]
    monkeypatch.setattr(turns, "TURN", -1.0)

    async def answered(client: Any, long: asyncio.Task[Any]) -> AsyncIterator[int]:
        while not long.done():
            yield (await client.get("/healthz")).status_code
            await asyncio.sleep(0)

    async def talk() -> tuple[int, list[int]]:
        async with client_of(tiny_server(run)) as client:
            long = asyncio.create_task(client.post(path, json={field: [""] * 300} | others))
            beside = [status async for status in answered(client, long)]
            return (await long).status_code, beside

    status, beside = asyncio.run(talk())
    assert status == 200
    assert {*beside} == {200}
    assert len(beside) > 20
