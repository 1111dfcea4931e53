"""Where a run stands."""

from __future__ import annotations

__all__ = ["Progress"]

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Progress:
    """Where a run stands: all of a checkpoint that is not a tensor."""

    step: int = 0
    """Updates done"""
    epoch: int = 0
    batch: int = 0
    """Next batch of the epoch; with `epoch`, the whole state of the data"""
    n_tokens: int = 0
    """Target symbols learnt from"""
    n_bad: int = 0
    """Updates skipped in a row because something was not finite"""
    seconds: float = 0.0
    """Time spent in updates"""
    valid_step: int = 0
    """Step of the newest validation"""
    n_stale: int = 0
    """Validations since the best one"""
    best: list[tuple[float, int]] = field(default_factory=list)
    """(goodness, step) of the best validations, the best first"""
    best_by: str = "nll"
    """What they were judged by: valid.best of that time"""

    def judged(self, goodness: float, n_best: int) -> bool:
        """Take a validation into account, keeping the `n_best`; whether none before was as good."""
        better = not self.best or goodness > self.best[0][0]
        self.valid_step = self.step
        self.n_stale = 0 if better else self.n_stale + 1
        self.best = sorted([*self.best, (goodness, self.step)], key=lambda b: (-b[0], b[1]))[:n_best]
        return better

    def judge_by(self, measure: str) -> None:
        """Judge validations by this measure from now on; what was best by another is forgotten."""
        if measure != self.best_by:
            self.best, self.n_stale, self.best_by = [], 0, measure

    def summary(self) -> dict[str, Any]:
        """What a run says of itself at its end."""
        return {
            "steps": self.step,
            "epochs": self.epoch,
            "tokens": self.n_tokens,
            "seconds": self.seconds,
            "n_stale": self.n_stale,
            "best_step": self.best[0][1] if self.best else None,
        }
