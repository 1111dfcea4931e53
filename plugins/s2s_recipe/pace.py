"""What follows from the length of a run: its warm-up, and how often it is validated and saved."""

from __future__ import annotations

__all__ = ["MOST_EPOCHS", "VALIDATIONS", "interval", "warmup"]

VALIDATIONS = 20
"""In a run, so that the first comes within its first tenth"""
MOST_WARMUP = 4000
MOST_EPOCHS = 100
"""That are planned, and above which a warning is given"""


def warmup(steps: int) -> int:
    """A tenth of the run, and never more than the paper's."""
    return max(min(steps // 10, MOST_WARMUP), 1)


def interval(steps: int) -> int:
    """Updates between two validations, and between two checkpoints."""
    return max(steps // VALIDATIONS, 1)
