"""Non-finite numbers: updates that are skipped because of them, and weights that are not saved."""

from __future__ import annotations

__all__ = ["NonFiniteGuard", "check_finite"]

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.checkpoint import directory as checkpoint
from s2s.errors import S2SError
from s2s.io.own_file import open_own
from s2s.log.log import Log

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from torch import Tensor

    from s2s.config import TrainConfig
    from s2s.data.pairs import Pair
    from s2s.training.state import TrainerState
    from s2s.training.step_result import StepResult

ADVICE = "Try a lower learning rate, a longer warm-up, train.clip=1, or train.precision=bf16, not fp16"


@dataclass
class NonFiniteGuard:
    """Logs skipped updates, keeps their batches for inspection, and counts them against train.max_bad."""

    path: Path
    """File for the batches, one JSON object per line"""
    limit: int
    """Consecutive skipped updates after which the run is aborted: train.max_bad, or half of train.steps if less"""
    log: Log

    @classmethod
    def from_config(cls, config: TrainConfig, directory: Path, log: Log) -> NonFiniteGuard:
        """The guard of the run in `directory`."""
        return cls(directory / "bad_batches.jsonl", min(config.max_bad, -(-config.steps // 2)), log)

    def record(
        self, state: TrainerState, step: int, batch: Sequence[Pair], result: StepResult, *, is_first: bool
    ) -> None:
        """Count and log update `step`, which was skipped; the first rank keeps the batch."""
        state.n_bad += 1
        what = f"loss {result.loss}, gradient norm {result.gnorm}"
        self.log.warn(f"update {step:,} skipped: {what} ({state.n_bad} in a row)")
        if is_first:
            pairs = [[[int(i) for i in side] for side in pair] for pair in batch]
            with suppress(OSError), open_own(self.path, "a") as file:
                file.write(json.dumps({"step": step, "what": what, "pairs": pairs}) + "\n")

    def limit_reached(self, state: TrainerState) -> bool:
        """Whether the run should be aborted."""
        return state.n_bad >= self.limit

    def error(self, good: Path | None) -> S2SError:
        """The error that aborts the run; `good` is its newest checkpoint."""
        return S2SError(
            f"{self.limit} updates in a row were not finite; the last good checkpoint is {good or 'none'}. {ADVICE}"
        )


def check_finite(
    tensors: Mapping[str, Mapping[str, Tensor]], parameters: Container[str], step: int, folder: Path
) -> None:
    """Raise S2SError if any of the tensors to save, group -> name -> tensor, holds NaN, or a parameter infinity.

    folder: that of the earlier checkpoints. A buffer may hold infinity, such as a mask that is added to scores.
    """
    bad = [
        f"{name} ({group})"
        for group, named in tensors.items()
        for name, tensor in named.items()
        if tensor.isnan().any() or (name in parameters and tensor.isinf().any())
    ]
    if bad:
        which = f"{bad[0]} and {len(bad) - 1} more" if bad[1:] else bad[0]
        good = checkpoint.latest(folder).path or "none"
        raise S2SError(
            f"after update {step:,}, {which}: not finite, and not saved; the last good checkpoint is {good}. "
            f"{ADVICE}, and check the optimizer's options, such as optim.eps"
        )
