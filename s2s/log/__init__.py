"""The log of a run: screen, log.jsonl and train.log. No torch at import."""

from __future__ import annotations

__all__ = ["Screen", "scalars"]

from s2s.log.log import scalars
from s2s.log.screen import Screen
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("screen", "live", Choice, "s2s.log.live:live_screen")
    registry.add("screen", "json", Choice, "s2s.log.json_screen:JsonScreen")
