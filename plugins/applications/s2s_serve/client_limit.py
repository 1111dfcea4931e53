"""Limits on the requests of one client: how many a minute, and how many at once."""

from __future__ import annotations

__all__ = ["ClientLimit", "header_key"]

import math
import time
from collections import Counter, OrderedDict
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers

from s2s_serve.refusal import RefusedError, busy

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s_serve.errors import Errors
    from s2s_serve.server import Server

WINDOW = 60.0
"""Seconds for which a client may use its requests up at once"""
MAX_CLIENTS = 100_000
"""Clients that are remembered; those that came first are forgotten first"""
UNLIMITED = ("/", "/docs", "/openapi.json", "/healthz")
PAGE_FILES = "/page/"
"""The files of a page, which a browser loads at once"""


class ClientLimit:
    """Refuses with 429 what one client asks for beyond `client_rate` requests a minute and `client_requests` at once.

    A client is a valid key, or else an address; of IPv6, a network of 64 bits, which one customer has.
    """

    def __init__(self, app: Any, server: Server, errors: Errors, now: Callable[[], float] = time.monotonic) -> None:
        self.app, self.server, self.errors, self.now = app, server, errors, now
        self.rate, self.at_once = server.config.client_rate, server.config.client_requests
        self.running: Counter[str] = Counter()
        self.restored: OrderedDict[str, float] = OrderedDict()
        """When a client will have all its requests of a minute again (the generic cell rate algorithm)"""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] in UNLIMITED or scope["path"].startswith(PAGE_FILES):
            return await self.app(scope, receive, send)
        client = self._client(scope)
        if refusal := self._refusal(client):
            return await self.errors.answer(refusal, scope["path"])(scope, receive, send)
        self.running[client] += 1
        try:
            return await self.app(scope, receive, send)
        finally:
            self.running[client] -= 1
            if not self.running[client]:
                del self.running[client]

    def _client(self, scope: Any) -> str:
        key = header_key(Headers(scope=scope))
        if key and self.server.knows(key):
            return f"key {key}"
        return _network((scope.get("client") or ("",))[0])

    def _refusal(self, client: str) -> RefusedError | None:
        """Why a request of a client is refused now; None: it is counted."""
        if self.at_once and self.running[client] >= self.at_once:
            return busy(f"{self.at_once} requests of this client are worked on already; wait for one", 1)
        if not self.rate:
            return None
        now = self.now()
        restored = max(self.restored.get(client, now), now) + WINDOW / self.rate
        if restored > now + WINDOW + 1e-6:
            seconds = math.ceil(restored - now - WINDOW)
            return busy(f"a client may send {self.rate} requests a minute; try again in {seconds} s", seconds)
        self.restored[client] = restored
        self.restored.move_to_end(client)
        while next(iter(self.restored.values())) <= now or len(self.restored) > MAX_CLIENTS:
            self.restored.popitem(last=False)
        return None


@lru_cache(1000)
def _network(address: str) -> str:
    """The name of all addresses that one client has."""
    try:
        parsed = ip_address(address)
    except ValueError:  # as a proxy names it
        return str(address)
    return str(int(parsed) >> 64) if isinstance(parsed, IPv6Address) and not parsed.ipv4_mapped else str(parsed)


def header_key(headers: Headers) -> str:
    """The key that a request has in a header: Authorization: Bearer KEY, or X-API-Key; empty: none."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")
