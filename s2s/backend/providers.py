"""The hooks that implement operators. They are called when an operator is first called, since they may compile.

No torch is imported, so that `load_plugins` can name them.
"""

from __future__ import annotations

__all__ = ["add_provider", "load_implementations", "pending"]

from collections.abc import Callable
from threading import RLock

Provider = Callable[[], list[str]]
"""Implements operators; returns for the log what it implemented, or why nothing, in a few words"""

pending: list[Provider] = []
"""One list per process, like the operators themselves"""
_descriptions: dict[str, None] = {}
_running: list[Provider] = []
"""The provider that is being called"""
_lock = RLock()


def add_provider(provider: Provider) -> None:
    """Add a provider, to be called when an operator is next called."""
    pending.append(provider)


def load_implementations() -> list[str]:
    """Call the pending providers; returns the descriptions of all that have been called.

    Other threads wait meanwhile. An operator that a provider itself calls uses the implementations available so far.
    """
    with _lock:
        while pending and not _running:
            _running.append(pending[0])
            try:
                _descriptions.update(dict.fromkeys(pending[0]()))
                del pending[0]
            finally:
                _running.clear()
    return list(_descriptions)
