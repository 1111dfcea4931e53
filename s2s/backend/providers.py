"""The hooks that implement operators. They are called when an operator is first called: they may have to compile.

No torch is imported, so that `load_plugins` can name them.
"""

from __future__ import annotations

__all__ = ["add_provider", "load_implementations", "pending"]

from collections.abc import Callable
from threading import RLock

Provider = Callable[[], list[str]]
"""Implements operators; returns a few words on what there is now, or why nothing, for the log"""

pending: list[Provider] = []
"""Of this process, like the operators themselves"""
_descriptions: dict[str, None] = {}
_running: list[Provider] = []
"""The one that is being called"""
_lock = RLock()


def add_provider(provider: Provider) -> None:
    """Have a provider called when an operator is next called."""
    pending.append(provider)


def load_implementations() -> list[str]:
    """Call the pending providers; the descriptions of all that have been called.

    Other threads wait meanwhile. An operator that a provider itself calls is computed with what there is by then.
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
