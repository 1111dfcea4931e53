"""What s2s ships, loaded once for all tests that only read it."""

from __future__ import annotations

from functools import cache

from s2s.plugin import Plugins, load_plugins


@cache
def shipped() -> Plugins:
    """All of it."""
    return load_plugins()
