"""The log of a run: screen, log.jsonl and train.log."""

from __future__ import annotations

__all__ = ["GAP", "Log", "Screen", "UpdateLine", "choose_screen", "finite", "scalars"]

from s2s.log.files import finite, scalars
from s2s.log.lines import GAP, UpdateLine
from s2s.log.log import Log
from s2s.log.screen import Screen, choose_screen
