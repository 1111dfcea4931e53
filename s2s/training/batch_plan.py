"""How large the batch of an update is, and how much of it one device computes at once."""

from __future__ import annotations

__all__ = ["BatchPlan"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass


def _allow(n_tokens: int) -> None:
    """Every micro-batch."""


@dataclass(frozen=True)
class BatchPlan:
    """What a hook chooses for train.tokens and train.micro_tokens, of which either may be auto."""

    tokens: int
    """Tokens on each side of one update's batch, over all devices"""
    micro_tokens: int | None = None
    """Tokens on each side that one device takes at once; None: all of them"""
    check_memory: Callable[[int], None] = _allow
    """Called with the tokens a side of each micro-batch; an error of too little memory splits the batch further"""
    lines: Sequence[str] = ()
    """For the first screen"""
