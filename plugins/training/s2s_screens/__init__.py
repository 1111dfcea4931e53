"""The output of a run besides plain records: lines with means and speed, a live line on a terminal, JSON for programs.

records of training → progress (lines, through `lines`) → live or plain output, and train.log. No torch at import.
"""

from __future__ import annotations

__all__ = ["s2s_observe", "s2s_register"]

from typing import TYPE_CHECKING

from s2s import Choice, Registry, hookimpl

if TYPE_CHECKING:
    from s2s import TrainerView
    from s2s_screens.progress import RunLines


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.add("screen", "live", Choice, "s2s_screens.live:live_screen")
    registry.add("screen", "json", Choice, "s2s_screens.json:JsonScreen")


@hookimpl
def s2s_observe(trainer: TrainerView) -> RunLines:
    """Lines for people, whatever the screen: train.log contains them, too."""
    from s2s_screens.progress import RunLines

    return RunLines(trainer)
