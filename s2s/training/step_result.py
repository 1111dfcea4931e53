"""The outcome of one update."""

from __future__ import annotations

__all__ = [
    "RESERVED",
    "KnownValues",
    "LaunchedUpdate",
    "StepResult",
    "UpdateSums",
    "ratio",
    "read_results",
    "step_result",
    "totals_and_counts",
]

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from s2s.optim.optimizer_step import is_finite

if TYPE_CHECKING:
    from collections.abc import Iterator


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


class KnownValues(NamedTuple):
    """What the host has of an update before the device has made it; see `StepResult`."""

    lr: float
    n_tokens: int
    n_src_tokens: int
    n_micro_batches: int
    flops: float | None


@dataclass(frozen=True)
class UpdateSums:
    """Sums over the global batch, in one tensor, so that ranks add them up in one call."""

    values: Tensor
    """[4 + 2 m], of an objective with m extra values"""

    @property
    def objective(self) -> Tensor:
        """[2 + 2 m], as `Sums.stack` returns them"""
        return self.values[:-2]

    @property
    def loss(self) -> Tensor:
        return self.values[0]

    @property
    def normaliser(self) -> Tensor:
        return self.values[1]

    @property
    def n_positions(self) -> Tensor:
        """Of source and target, padding included"""
        return self.values[-2]

    @property
    def n_failed(self) -> Tensor:
        """Ranks that ran out of memory"""
        return self.values[-1]


@dataclass(frozen=True)
class LaunchedUpdate:
    """An update that the device may still be computing."""

    values: Tensor
    """[n, 5 + 2 m], for each of the updates of the batch what `OptimizerStep` returns"""
    result: Callable[[Sequence[Sequence[float]]], StepResult]
    """The outcome, of these values on the host"""

    @property
    def is_finite(self) -> Tensor:
        """[], whether the optimizer stepped in the last update of the batch"""
        return is_finite(self.values[-1])


def read_results(updates: Sequence[LaunchedUpdate]) -> list[StepResult]:
    """The outcomes of updates, for which the host waits once."""
    values = torch.cat([update.values for update in updates]).tolist()
    rows = iter(values)
    return [update.result([next(rows) for _ in update.values]) for update in updates]


def step_result(known: KnownValues, extras: Sequence[str], updates: Sequence[Sequence[float]]) -> StepResult:
    """The outcome of all updates of a batch, each as in `LaunchedUpdate.values`; extras: names of the extra values."""
    *objective, n_positions, _n_failed, _norm = map(sum, zip(*updates, strict=True))
    loss, *means = (ratio(*pair) for pair in totals_and_counts(objective))
    return StepResult(
        loss=loss,
        extras=dict(zip(extras, means, strict=True)),
        gnorm=updates[-1][-1],
        padding=1 - len(updates) * (known.n_src_tokens + known.n_tokens) / n_positions,
        **known._asdict(),
    )


def ratio(total: float, count: float) -> float:
    """total / count; NaN if nothing was counted."""
    return total / count if count else math.nan


def totals_and_counts(values: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Total and count of each value of `Sums.stack`."""
    return zip(values[::2], values[1::2], strict=True)
