"""Updates that were skipped, because their loss or gradient was not finite."""

from __future__ import annotations

__all__ = ["Spoilt"]

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
    from s2s.progress import Progress
    from s2s.update import Updated


@dataclass
class Spoilt:
    """Says so, keeps the batches for whoever looks into them, and knows when it is too much."""

    path: Path
    """Where the batches are kept, a JSON object a line"""
    limit: int
    """train.max_bad: skipped updates in a row after which a run is given up"""
    log: Log

    def tell(self, progress: Progress, batch: Sequence[Pair], updated: Updated, *, is_first: bool) -> None:
        """One more in a row; of several processes the first keeps the batch."""
        progress.n_bad += 1
        what = f"loss {updated.loss}, gradient norm {updated.gnorm}"
        self.log.warn(f"update {progress.step:,} skipped: {what} ({progress.n_bad} in a row)")
        if is_first:
            pairs = [[[int(i) for i in side] for side in pair] for pair in batch]
            with suppress(OSError), self.path.open("a") as file:
                file.write(json.dumps({"step": progress.step, "what": what, "pairs": pairs}) + "\n")

    def too_many(self, progress: Progress) -> bool:
        """Whether going on is pointless."""
        return progress.n_bad >= self.limit

    def error(self, good: Path | None) -> S2SError:
        """What to raise then; `good` is the last checkpoint."""
        return S2SError(
            f"{self.limit} updates in a row were not finite; the last good checkpoint is {good or 'none'}. Try "
            "a lower learning rate, a longer warm-up, train.clip=1, or train.precision=bf16, not fp16"
        )
