"""Installed plugins and all their options: s2s-plugins, and --help of all commands. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_help"]

from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s import Plugins


@hookimpl
def s2s_help(schema: type, topics: Sequence[str], flags: Mapping[str, str], plugins: Plugins) -> str:
    """One screen about the command, or everything about the topics."""
    from s2s_help.help import explain, overview

    return explain(schema, topics, plugins) if topics else overview(schema, flags, plugins)
