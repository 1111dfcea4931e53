"""One step of an optimizer, whose learning rate a schedule gives; both are registered by plugins."""

from __future__ import annotations

__all__ = ["Schedule"]

from collections.abc import Callable

Schedule = Callable[[int], float]
"""The learning rate of a step, which counts from 1; without a state: resuming at a step gives that step's rate"""
