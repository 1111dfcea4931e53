"""Refuses what a page of another site sends: requests under a name that is not this server's, and foreign origins.

A page can have its own name lead to this machine (DNS rebinding) and then read answers as those of its own site. Its
requests name it as Host: names must be known, while an address cannot be rebound. Other requests of a page carry its
origin, or at least Sec-Fetch-Site.
"""

from __future__ import annotations

__all__ = ["OwnSite"]

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers

from s2s_serve.refusal import RefusedError

if TYPE_CHECKING:
    from s2s_serve import ServeConfig
    from s2s_serve.errors import Errors

ANY = "*"
LOCALHOST = "localhost"
HOST = re.compile(r"(\[[0-9a-f:.]+\]|\w[\w.-]*)(:\d{1,5})?", re.ASCII)
"""Name or address, and port, of a Host header in lower case"""
MAX_HOSTS = 100
"""Hosts of which it is remembered whether they are this server's"""
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class OwnSite:
    """Answers requests to a name or address of this server that no foreign page has sent, and refuses others."""

    def __init__(self, app: Any, config: ServeConfig, errors: Errors) -> None:
        self.app, self.errors, self.cors = app, errors, config.cors
        self.names = {LOCALHOST, *(name.lower().strip("[]") for name in (config.host, *config.hosts))}
        self.is_on_loopback = config.host == LOCALHOST or _is_loopback(config.host)
        self.is_own = lru_cache(MAX_HOSTS)(self._is_own)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope["method"], Headers(scope=scope))):
            return await self.errors.answer(refusal, scope["path"])(scope, receive, send)
        return await self.app(scope, receive, send)

    def _refusal(self, method: str, headers: Headers) -> RefusedError | None:
        """Why a request is refused; None: it is not."""
        host = ", ".join(headers.getlist("host")).lower()
        if not self.is_own(host):
            advice = "if it is a name of this server, start it with hosts=[NAME]"
            return RefusedError(421, "host", f"this server does not answer for the name {host[:200]!r}; {advice}")
        if origin := self._foreign_origin(method, host, headers):
            advice = "to let a site's pages call this server, start it with cors=[ORIGIN]"
            return RefusedError(403, "origin", f"a page of {origin[:200]} has sent this request; {advice}")
        return None

    def _is_own(self, host: str) -> bool:
        """Whether a Host header has a name or address of this server, with any port: it may be published as another."""
        if ANY in self.names:
            return True
        match = HOST.fullmatch(host)
        name = match[1].strip("[]").removesuffix(".") if match else ""
        if name in self.names:
            return True
        try:
            ip_address(name)
        except ValueError:
            return any(each.startswith("*.") and name.endswith(each[1:]) for each in self.names)
        return not self.is_on_loopback or _is_loopback(name)

    def _foreign_origin(self, method: str, host: str, headers: Headers) -> str:
        """The site whose page has sent a request, unless it may; empty: none."""
        if ANY in self.cors:
            return ""
        if origins := headers.getlist("origin"):
            foreign = (each or "no origin" for each in origins if each not in self.cors and not _is_of(host, each))
            return next(foreign, "")
        is_link = method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
        if is_link and headers.get("sec-fetch-dest") == "document":  # it is followed by a person; no page reads it
            return ""
        return "" if headers.get("sec-fetch-site", "none") in ("none", "same-origin") else "another site"


def _is_of(host: str, origin: str) -> bool:
    """Whether an origin is that of a Host; behind a proxy with TLS, the scheme is another."""
    scheme, _, name = origin.lower().partition("://")
    port = DEFAULT_PORTS.get(scheme)
    return port is not None and name.removesuffix(port) == host.removesuffix(port)


def _is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
