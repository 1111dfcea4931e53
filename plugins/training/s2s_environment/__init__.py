"""env.json: versions, code, plugins and machine, on which results also depend. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_environment", "s2s_environment_changes"]

from typing import TYPE_CHECKING, Any

from s2s import hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s import Plugins
    from s2s.distributed import World


@hookimpl
def s2s_environment(plugins: Plugins, world: World) -> dict[str, Any]:
    """The environment in which the run is started."""
    from s2s_environment.facts import environment

    return environment(plugins, world)


@hookimpl
def s2s_environment_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Warnings about changes that affect a resumed run."""
    from s2s_environment.facts import changes

    return changes(old, new)
