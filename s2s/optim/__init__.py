"""One step of an optimizer, with the learning rate of a schedule; both are registered by plugins."""

from __future__ import annotations

__all__ = ["Schedule"]

from collections.abc import Callable

Schedule = Callable[[int], float]
"""The learning rate of a step, counted from 1; stateless: resuming at a step gives that step's rate"""
