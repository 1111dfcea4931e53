"""How large the batch of an update is, and how much of it one device computes at once."""

from __future__ import annotations

__all__ = ["BatchPlan"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass


def _allow(n_tokens: int) -> None:
    """Allow every micro-batch."""


@dataclass(frozen=True)
class BatchPlan:
    """The values that a hook chooses for train.tokens and train.micro_tokens, either of which may be auto."""

    tokens: int
    """Tokens on each side of one update's batch, over all devices"""
    micro_tokens: int | None = None
    """Tokens on each side that one device processes at once; None: all of them"""
    check_memory: Callable[[int], None] = _allow
    """Called with the tokens per side of each micro-batch; an out-of-memory error splits the batch further"""
    report: Sequence[str] = ()
    """Lines for the first screen: how the values were found"""
