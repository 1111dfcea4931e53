"""The options of s2s-average."""

from __future__ import annotations

__all__ = ["AverageConfig"]

from dataclasses import dataclass

from s2s.config.ranges import at_least, check_ranges


@dataclass(kw_only=True)
class AverageConfig:
    """s2s-average: write the mean of several checkpoints of a run.

    s2s-average run=my_run last=5
    """

    run: str = ""
    """Run directory, its name under runs/, or last."""
    last: int = 0
    """Number of newest checkpoints to average."""
    best: int = 0
    """Number of best checkpoints to average."""
    output: str = "average"
    """Name of the new checkpoint."""

    def __post_init__(self) -> None:
        check_ranges("", self, last=at_least(0), best=at_least(0))
