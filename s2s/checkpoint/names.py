"""Checkpoints that are named after a step, and a key of their states: found without torch, which tensors need."""

from __future__ import annotations

__all__ = ["WORSE", "step_name", "steps"]

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_STEP = re.compile(r"step-(\d+)")
WORSE = "worse_than_best"
"""Key in the state of an average that validated worse than the best checkpoint"""


def step_name(step: int) -> str:
    """The name of the checkpoint after update `step`."""
    return f"step-{step:06d}"


def steps(folder: Path) -> list[Path]:
    """All checkpoints that are named after a step, valid or not, in the order of the steps."""
    if not folder.is_dir():
        return []
    folders = (path for path in folder.iterdir() if _STEP.fullmatch(path.name) and path.is_dir())
    return sorted(folders, key=lambda path: int(path.name.removeprefix("step-")))
