"""The hooks that implement operators. They are called when an operator is first called: they may have to compile.

No torch is imported, so that `load_plugins` can name them.
"""

from __future__ import annotations

__all__ = ["ask", "provide", "waiting"]

from collections.abc import Callable
from threading import RLock

Provider = Callable[[], list[str]]
"""Implements operators; says in a few words what there is now, or why nothing, for the log"""

waiting: list[Provider] = []
"""Of this process, like the operators themselves"""
_said: dict[str, None] = {}
_asked: list[Provider] = []
"""The one that is being asked"""
_lock = RLock()


def provide(provider: Provider) -> None:
    """Ask a provider when an operator is next called."""
    waiting.append(provider)


def ask() -> list[str]:
    """Ask those that have not been asked; what all have said.

    Other threads wait meanwhile. An operator that a provider itself calls is computed with what there is by then.
    """
    with _lock:
        while waiting and not _asked:
            _asked.append(waiting[0])
            try:
                _said.update(dict.fromkeys(waiting[0]()))
                del waiting[0]
            finally:
                _asked.clear()
    return list(_said)
