"""A server of a tiny run, and a client that talks to it without a network."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from harness.tiny_runs import train_tiny
from s2s.plugin import load_plugins
from s2s_serve import ServeConfig
from s2s_serve.app import create_app
from s2s_serve.server import Server, load_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

LEARNS = ("train.steps=60", "arch.d_model=32", "arch.d_ff=64", "schedule.warmup=20", "checkpoint.every=30")
"""Enough to end its outputs by itself"""


def train_run(folder: Path) -> str:
    """A run; its path."""
    train_tiny(folder, *LEARNS)
    return str(folder / "runs" / "x")


def tiny_server(path: str, **options: Any) -> Server:
    """One that translates en to de, unless the option `run` says otherwise."""
    return load_server(ServeConfig(**{"run": {"en-de": path}, **options}), load_plugins())


@asynccontextmanager
async def client_of(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """A client, while the engines run."""
    app = create_app(server)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client,
    ):
        yield client


async def finished(client: httpx.AsyncClient, number: str) -> dict[str, Any]:
    """The state of a job that is done, or has failed."""
    while (state := (await client.get(f"/v1/jobs/{number}")).json())["state"] not in ("done", "failed"):
        await asyncio.sleep(0.01)
    assert isinstance(state, dict)
    return state


@contextmanager
def listening(server: Server) -> Iterator[str]:
    """The server on a port of the loopback; its address, with a slash at the end."""
    with listening_app(create_app(server), server.config) as address:
        yield address


@contextmanager
def listening_app(app: Any, config: ServeConfig) -> Iterator[str]:
    """An application in the place of the server's."""
    import uvicorn

    from s2s_serve.protocol import server_settings

    loop = uvicorn.Server(server_settings(app, config, port=0))
    thread = threading.Thread(target=loop.run)
    thread.start()
    while not loop.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{loop.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        loop.should_exit = True
        thread.join()


class Served:
    """A server that runs in a thread of its own, for many tests."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
        self.server, self.loop, self.client = server, loop, client

    def ask(self, work: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
        """What `work` gives of a client."""

        async def talk() -> Any:
            return await work(self.client)

        return asyncio.run_coroutine_threadsafe(talk(), self.loop).result(60)

    def post(self, path: str, body: Any) -> httpx.Response:
        """The answer to one request."""
        answer: httpx.Response = self.ask(lambda client: client.post(path, json=body))
        return answer


@contextmanager
def served(server: Server) -> Iterator[Served]:
    """The server, until the end of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    context = client_of(server)
    try:
        client = asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(60)
        yield Served(server, loop, client)
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
