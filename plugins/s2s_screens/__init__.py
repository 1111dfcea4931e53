"""What a run shows beside plain lines: a live line on a terminal, JSON for programs. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_register"]

from s2s import Choice, Registry, hookimpl


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("screen", "live", Choice, "s2s_screens.live:live_screen")
    registry.add("screen", "json", Choice, "s2s_screens.json:JsonScreen")
