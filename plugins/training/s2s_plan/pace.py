"""What follows from the length of a run: its warm-up, and the intervals of validation and checkpoints."""

from __future__ import annotations

__all__ = ["MOST_EPOCHS", "VALIDATIONS", "interval", "warmup"]

VALIDATIONS = 20
"""Validations in a run, so that the first comes within its first tenth"""
MOST_WARMUP = 4000
MOST_EPOCHS = 100
"""Maximum number of epochs planned; a run with more gets a warning"""


def warmup(steps: int) -> int:
    """Warm-up updates: a tenth of the run, at most the paper's 4,000."""
    return max(min(steps // 10, MOST_WARMUP), 1)


def interval(steps: int) -> int:
    """Updates between two validations, and between two checkpoints."""
    return max(steps // VALIDATIONS, 1)
