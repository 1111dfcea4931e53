"""Updates that are skipped because their loss or gradient is not finite."""

from __future__ import annotations

__all__ = ["NonFiniteGuard"]

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.errors import S2SError
from s2s.log import Log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.data.batching import Pair
    from s2s.training.state import TrainerState
    from s2s.training.step_result import StepResult


@dataclass
class NonFiniteGuard:
    """Logs skipped updates, keeps their batches for inspection, and counts them against train.max_bad."""

    path: Path
    """File for the batches, a JSON object a line"""
    limit: int
    """train.max_bad: consecutive skipped updates after which the run is given up"""
    log: Log

    def record(self, state: TrainerState, batch: Sequence[Pair], result: StepResult, *, is_first: bool) -> None:
        """Count and log a skipped update; the first rank keeps the batch."""
        state.n_bad += 1
        what = f"loss {result.loss}, gradient norm {result.gnorm}"
        self.log.warn(f"update {state.step:,} skipped: {what} ({state.n_bad} in a row)")
        if is_first:
            pairs = [[[int(i) for i in side] for side in pair] for pair in batch]
            with suppress(OSError), self.path.open("a") as file:
                file.write(json.dumps({"step": state.step, "what": what, "pairs": pairs}) + "\n")

    def limit_reached(self, state: TrainerState) -> bool:
        """Whether the run should be given up."""
        return state.n_bad >= self.limit

    def error(self, good: Path | None) -> S2SError:
        """The error that gives the run up; `good` is its newest checkpoint."""
        return S2SError(
            f"{self.limit} updates in a row were not finite; the last good checkpoint is {good or 'none'}. Try "
            "a lower learning rate, a longer warm-up, train.clip=1, or train.precision=bf16, not fp16"
        )
