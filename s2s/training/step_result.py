"""The outcome of one update."""

from __future__ import annotations

__all__ = ["RESERVED", "StepResult", "ratio", "totals_and_counts"]

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


RESERVED = {
    *("kind", "step", "epoch", "loss", "lr", "gnorm", "tokens", "src_tokens", "padding", "micro_batches", "pairs"),
    *("seconds", "device_seconds", "wait", "flops", "mfu", "memory", "used", "tokens_per_second", "ppl", "best"),
    *("search", "signatures", "sentences", "of_sentences", "empty", "length_ratio"),
}
"""Keys of the log's records, which no metric and no extra value of an objective may use"""


@dataclass(frozen=True)
class StepResult:
    """Outcome of one update."""

    loss: float
    """Loss of the objective, divided by its normaliser"""
    extras: dict[str, float]
    """The objective's extra values, each divided by its normaliser"""
    gnorm: float
    lr: float
    n_tokens: int
    n_src_tokens: int
    padding: float
    """Share of padding among the positions of all micro-batches, on both sides"""
    n_micro_batches: int
    """Over all ranks"""
    flops: float | None
    """Floating-point operations of the model, forward and backward; None: it does not count them"""

    @property
    def is_finite(self) -> bool:
        """Whether the optimizer stepped; otherwise weights and optimizer are unchanged."""
        return math.isfinite(self.loss) and math.isfinite(self.gnorm)

    def record(self) -> dict[str, float]:
        """Values for the log."""
        return {
            "loss": self.loss,
            **self.extras,
            "lr": self.lr,
            "gnorm": self.gnorm,
            "tokens": self.n_tokens,
            "src_tokens": self.n_src_tokens,
            "padding": self.padding,
            "micro_batches": self.n_micro_batches,
        }


def ratio(total: float, count: float) -> float:
    """total / count; NaN if nothing was counted."""
    return total / count if count else math.nan


def totals_and_counts(values: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Total and count of each value of `Sums.stack`."""
    return zip(values[::2], values[1::2], strict=True)
