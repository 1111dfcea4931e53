"""What is read of env.json, without the modules that write it."""

from __future__ import annotations

__all__ = ["DISTRIBUTION", "foreign_plugins", "recorded"]

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

DISTRIBUTION = "s2s-toolkit"
"""That which ships s2s and its plugins"""


def foreign_plugins(env: Mapping[str, Any]) -> list[str]:
    """The plugins of a run that s2s does not ship, by its env.json."""
    plugins = recorded(env, "plugins")
    names = list(plugins) if isinstance(plugins, dict) else []
    return [n for n in names if not str(recorded(plugins, n, "origin")).startswith(f"{DISTRIBUTION} ")]


def recorded(tree: Any, *keys: str) -> Any:
    """The value under these keys, each inside the one before; None if there is none."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree
