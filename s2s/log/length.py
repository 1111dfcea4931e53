"""The length of a run: trainer, schedule and log ask one object, since a time budget may change it."""

from __future__ import annotations

__all__ = ["RunLength"]

from dataclasses import dataclass


@dataclass
class RunLength:
    """How far a run goes; a change must be made on every rank, after the same update."""

    n_steps: int
    """Number of the last update: train.steps, unless a time budget has moved it"""
