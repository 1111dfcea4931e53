"""The log of a run: screen, log.jsonl and train.log."""

from __future__ import annotations

__all__ = ["Log", "Progress", "Screen", "choose_screen", "nonfinite_to_null", "scalars"]

from s2s.log.files import nonfinite_to_null, scalars
from s2s.log.log import Log
from s2s.log.screen import Progress, Screen, choose_screen
