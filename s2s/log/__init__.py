"""The log of a run: screen, log.jsonl and train.log. No torch at import."""

from __future__ import annotations

__all__ = ["Log", "Screen", "choose_screen", "nonfinite_to_null", "scalars"]

from s2s.log.files import nonfinite_to_null, scalars
from s2s.log.log import Log
from s2s.log.screen import Screen, choose_screen
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("screen", "live", Choice, "s2s.log.live:live_screen")
    registry.add("screen", "json", Choice, "s2s.log.json_screen:JsonScreen")
